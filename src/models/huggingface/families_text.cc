// Models and text parts of transformers 5.24 (models/*/configuration_*.py, modeling_*.py), read 2026-11. One row a line.
#include <array>

#include "models/huggingface/families.h"

namespace rotary {
namespace {

constexpr Pairing interleaved = Pairing::interleaved;
constexpr Pairing to_half = Pairing::half;
constexpr NormOrder before = NormOrder::before_rotation;
constexpr NormOrder after = NormOrder::after_rotation;

// clang-format off
constexpr std::array rows{
  Family{.model_type = "llama", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}},
  Family{.model_type = "mistral", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072, .window = 4096}, .windows = true},
  Family{.model_type = "mixtral", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072}, .base = 1e6, .windows = true},
  Family{.model_type = "olmo2", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .norm = before},
  Family{.model_type = "qwen2", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 32, .hidden = 4096, .length = 32768}, .layers = upper_windows(28)},
  Family{.model_type = "qwen3", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 32, .head_dim = 128, .hidden = 4096, .length = 32768}, .layers = upper_windows(28), .norm = before},
  Family{.model_type = "seed_oss", .defaults = {.layers = 64, .q_heads = 80, .kv_heads = 8, .head_dim = 128, .hidden = 4096, .length = 524288}},
  Family{.model_type = "starcoder2", .defaults = {.layers = 30, .q_heads = 24, .kv_heads = 2, .hidden = 3072, .length = 4096}, .windows = true},
  Family{.model_type = "gemma3_text", .defaults = {.layers = 26, .q_heads = 8, .kv_heads = 4, .head_dim = 256, .hidden = 2304, .length = 131072, .window = 4096}, .layers = every(6, "sliding_window_pattern"), .ropes = {{{.sort = "sliding_attention", .base = 1e4, .base_key = "rope_local_base_freq", .scaled = false}, {.sort = "full_attention", .base = 1e6}}}, .scale = Scale::query_pre_attn_scalar, .scale_value = 256, .norm = before},
  Family{.model_type = "deepseek_v3", .defaults = {.layers = 61, .q_heads = 128, .kv_heads = 128, .hidden = 7168, .length = 4096, .nope = 128, .rope = 64}, .pairing = interleaved, .pairing_out = to_half, .slice = mla(), .scale = Scale::mla},
  Family{.model_type = "hunyuan_vl_text", .alpha_is_ntk = true, .axes = Axes::xdrope, .norm = after},
  Family{.model_type = "qwen2_vl_text", .defaults = {.layers = 80, .q_heads = 64, .kv_heads = 8, .hidden = 8192, .length = 32768}, .base = 1e6, .layers = upper_windows(80), .axes = Axes::blocks, .sections = {16, 24, 24}},
  Family{.model_type = "gpt2", .positions = HowPositionsAct::none, .why = "learned positions", .defaults = {.layers = 12, .q_heads = 12, .hidden = 768, .length = 1024}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions"},
};
// clang-format on

}  // namespace

std::span<const Family> text_families() { return rows; }

}  // namespace rotary
