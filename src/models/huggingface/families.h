// The tables behind find_family, one file each.
#pragma once

#include <span>

#include "models/huggingface/family.h"

namespace rotary::huggingface {

std::span<const Family> text_families();       ///< families_text.cc: models and text parts of transformers
std::span<const Family> tower_families();      ///< families_towers.cc: vision, audio and video towers
std::span<const Family> composite_families();  ///< families_composite.cc: files that hold several parts
std::span<const Family> remote_families();     ///< families_remote.cc: code that comes with the weights

}  // namespace rotary::huggingface
