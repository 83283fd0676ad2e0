// Families whose code comes with the weights (auto_map), read 2026-11. One row a line; `source` says where the facts are
// from.
#include <array>

#include "models/huggingface/families.h"

namespace rotary {
namespace {

// clang-format off
constexpr std::array rows{
  Family{.model_type = "kimi_k2", .defaults = {.nope = 128, .rope = 64}, .pairing = Pairing::interleaved, .pairing_out = Pairing::half, .slice = mla(), .scale = Scale::mla, .source = "remote code, DeepSeek-V3's"},
};
// clang-format on

}  // namespace

std::span<const Family> remote_families() { return rows; }

}  // namespace rotary
