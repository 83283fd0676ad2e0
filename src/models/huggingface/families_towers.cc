// Vision, audio and video towers of transformers 5.24 (models/*/configuration_*.py, modeling_*.py), read 2026-11. One row a
// line.
#include <array>

#include "models/huggingface/families.h"

namespace rotary {
namespace {

// clang-format off
constexpr std::array rows{
  Family{.model_type = "qwen2_vl_vision", .defaults = {.layers = 32, .q_heads = 16, .hidden = 1280}, .aliases = "num_hidden_layers=depth num_attention_heads=num_heads", .base_key = "", .axes = Axes::vision_rows},
};
// clang-format on

}  // namespace

std::span<const Family> tower_families() { return rows; }

}  // namespace rotary
