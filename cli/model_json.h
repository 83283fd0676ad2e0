// A model's rotations as JSON, schema 1: docs/inspect.md.
#pragma once

#include <cstdint>
#include <vector>

#include "output.h"
#include "rotary/model.hpp"

namespace rotary::cli {

/// Of these groups of its layers; `length` below 0: none was asked for, and frequencies are those of short calls.
Json model_json(const ModelRotations& model, const std::vector<LayerGroup>& groups, std::int64_t length);

}  // namespace rotary::cli
