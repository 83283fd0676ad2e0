// The base that one sort of layer turns by: rope_theta, or what the family calls it.
#pragma once

#include "models/huggingface/rope_spellings.h"

namespace rotary::huggingface {

Found<double> read_base(const Spellings& spellings, const Part& part, const RopeQuestion& question);

}  // namespace rotary::huggingface
