// One part of a config becomes a ModelDescription: shape, sorts of layers, and what each sort does.
#pragma once

#include "models/description.h"
#include "models/huggingface/part.h"

namespace rotary::huggingface {

/// Everything but model_type, source, format, warnings and parts, which belong to the whole file.
ModelDescription read_part(const Part& part);

}  // namespace rotary::huggingface
