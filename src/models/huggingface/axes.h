// Which axis of the position drives each pair, and the frequencies of towers that give each axis its own.
#pragma once

#include <cstdint>
#include <string>

#include "models/huggingface/part.h"
#include "models/huggingface/rope_parameters.h"
#include "models/provenance.h"
#include "rotary/rotation.hpp"

namespace rotary::huggingface {

/// Fills in layout.axis (and the pairs, where a tower lists them), and replaces answer.rule for towers. `sort` is the
/// layer's.
void read_axes(const Part& part, const std::string& sort, std::int64_t head_dim, RopeAnswer& answer, RotationSpec& layout,
               Provenance& provenance);

}  // namespace rotary::huggingface
