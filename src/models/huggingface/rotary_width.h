// How many channels of a head turn.
#pragma once

#include <cstdint>
#include <string>

#include "models/huggingface/rope_spellings.h"

namespace rotary::huggingface {

/// Odd only where lenient reading takes an odd share. `rule` is the rule's name as the file has it.
std::int64_t read_rotary_width(const std::string& rule, const Spellings& spellings, const Part& part,
                               const RopeQuestion& question, Provenance& provenance);

}  // namespace rotary::huggingface
