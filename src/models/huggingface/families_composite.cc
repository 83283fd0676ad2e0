// Files of transformers 5.24 that hold several parts (models/*/configuration_*.py: sub_configs), read 2026-11. One row a
// line; the part that writes text comes first.
#include <array>

#include "models/huggingface/families.h"

namespace rotary {
namespace {

// clang-format off
constexpr std::array rows{
  Family{.model_type = "qwen2_vl", .parts = "text_config=qwen2_vl_text vision_config=qwen2_vl_vision", .flat = true},
};
// clang-format on

}  // namespace

std::span<const Family> composite_families() { return rows; }

}  // namespace rotary
