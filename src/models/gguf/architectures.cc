// The table of architectures.
#include "models/gguf/architecture.h"

#include <array>

namespace rotary::gguf {
namespace {

using enum RopeType;
constexpr bool full_first = true;

constexpr Window optional_window(std::int64_t period, bool first = false) {
  return {.mask = Mask::window, .period = period, .full_first = first};
}
constexpr Window required_window(std::int64_t period, bool first = false) {
  return {.mask = Mask::window, .required = true, .period = period, .full_first = first};
}
constexpr Window listed_window{.mask = Mask::window, .required = true, .pattern = Window::Pattern::listed};

constexpr const char* by_design = "the architecture turns other layers only";
constexpr const char* gptj_note =
    "llama.cpp knows the name, but has no code for it and answers that nothing turns; read here as GPT-J itself, which "
    "turns "
    "neighbours";
constexpr const char* rounding_note =
    "llama.cpp rounds the range of pairs that YaRN blends outwards, and a GGUF cannot say otherwise; the model was trained "
    "with the unrounded range (truncate: false). The frequencies here are those of llama.cpp";

/// All of llama.cpp at 0c1e57098 (as llama-cpp-python 0.3.36 has it, read 2026-11) but `clip`: src/llama-arch.cpp, names;
/// src/llama-model.cpp, llama_model_rope_type; src/models/NAME.cpp, load_arch_hparams and graph; conversion/NAME.py,
/// permuted. gptj, which llama.cpp cannot run, is after its own code (EleutherAI's mesh-transformer-jax, layers.py).
constexpr auto architectures = std::to_array<Architecture>({
    // clang-format off
    {.name = "llama", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .permuted = true},
    {.name = "llama4", .type = norm, .turns = Turns::llama4, .reason = by_design, .window = {.mask = Mask::chunks, .size = 8192, .period = 4}, .sliding = Sliding::own_or_full_base, .whole_head_only = true, .divisors = Divisors::freqs, .temperature = Temperature::llama4, .norm = QkNorm::llama4},
    {.name = "deci", .type = norm, .attends = Attends::with_kv_heads, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .permuted = true},
    {.name = "falcon", .type = neox, .whole_head_only = true},
    {.name = "grok", .type = neox, .whole_head_only = true, .scale = SoftmaxScale::grok, .softcap = 30, .yarn = YarnKeys::grok},
    {.name = "gpt2", .turns = Turns::none, .reason = "learned positions"},
    {.name = "gptj", .type = norm, .note = gptj_note, .note_without_yarn = true},
    {.name = "gptneox", .type = neox},
    {.name = "mpt", .turns = Turns::none, .reason = "ALiBi, or learned positions"},
    {.name = "baichuan", .type = norm, .turns = Turns::baichuan, .reason = "ALiBi", .whole_head_only = true, .permuted = true},
    {.name = "starcoder", .turns = Turns::none, .reason = "learned positions"},
    {.name = "refact", .turns = Turns::none, .reason = "ALiBi"},
    {.name = "bert", .turns = Turns::none, .reason = "learned positions"},
    {.name = "modern-bert", .type = neox, .window = {.mask = Mask::symmetric, .period = 3, .full_first = true}, .sliding = Sliding::own_or_10000_plain},
    {.name = "nomic-bert", .type = neox},
    {.name = "nomic-bert-moe", .type = neox},
    {.name = "neo-bert", .type = norm},
    {.name = "jina-bert-v2", .turns = Turns::none, .reason = "ALiBi"},
    {.name = "jina-bert-v3", .type = neox},
    {.name = "eurobert", .type = neox},
    {.name = "bloom", .turns = Turns::none, .reason = "ALiBi"},
    {.name = "stablelm", .type = neox, .norm = QkNorm::before_if_given},
    {.name = "qwen", .type = neox},
    {.name = "qwen2", .type = neox, .whole_head_only = true},
    {.name = "qwen2moe", .type = neox, .whole_head_only = true},
    {.name = "qwen2vl", .type = mrope, .whole_head_only = true},
    {.name = "qwen3", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "qwen3moe", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "qwen3next", .type = neox, .attends = Attends::every_fourth, .norm = QkNorm::before},
    {.name = "qwen3vl", .type = imrope, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "qwen3vlmoe", .type = imrope, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "qwen35", .type = imrope, .attends = Attends::every_fourth, .norm = QkNorm::before},
    {.name = "qwen35moe", .type = imrope, .attends = Attends::every_fourth, .norm = QkNorm::before},
    {.name = "qwen4exp", .type = imrope, .attends = Attends::every_fourth, .norm = QkNorm::before},
    {.name = "phi2", .type = neox},
    {.name = "phi3", .type = neox, .divisors = Divisors::lists},
    {.name = "phimoe", .type = neox, .divisors = Divisors::lists},
    {.name = "plamo", .type = neox, .rotary_dim = RotaryDim::whole_head},
    {.name = "plamo2", .type = neox, .attends = Attends::with_kv_heads, .scale = SoftmaxScale::value_dim, .norm = QkNorm::before},
    {.name = "plamo3", .type = neox, .window = optional_window(8), .sliding = Sliding::own_or_10000_plain, .norm = QkNorm::before, .note = rounding_note},
    {.name = "codeshell", .type = neox, .whole_head_only = true},
    {.name = "orion", .type = neox, .whole_head_only = true},
    {.name = "internlm2", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "minicpm", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .permuted = true},
    {.name = "minicpm3", .type = neox, .slice = Slice::trailing, .divisors = Divisors::lists},
    {.name = "gemma", .type = neox},
    {.name = "gemma2", .type = neox, .window = {.mask = Mask::window, .size = 4096, .period = 2}, .sliding = Sliding::own_or_full_base, .scale = SoftmaxScale::gemma2, .softcap = 50},
    {.name = "gemma3", .type = neox, .window = optional_window(6), .sliding = Sliding::own_or_10000_plain, .scale = SoftmaxScale::gemma3, .norm = QkNorm::before},
    {.name = "gemma3n", .type = neox, .window = required_window(5), .sliding = Sliding::own_or_10000_plain, .scale = SoftmaxScale::one, .norm = QkNorm::before},
    {.name = "gemma4", .type = neox, .window = listed_window, .sliding = Sliding::own_or_10000_plain, .rotary_dim = RotaryDim::of_each_layer, .divisors = Divisors::freqs_on_full, .scale = SoftmaxScale::one, .norm = QkNorm::before},
    {.name = "gemma4-assistant", .type = neox, .window = listed_window, .sliding = Sliding::own_or_10000_plain, .rotary_dim = RotaryDim::of_each_layer, .divisors = Divisors::freqs_on_full, .scale = SoftmaxScale::one, .norm = QkNorm::before, .further_blocks = FurtherBlocks::not_apart},
    {.name = "gemma-embedding", .type = neox, .window = {.mask = Mask::symmetric, .required = true, .period = 6}, .sliding = Sliding::own_or_10000_plain, .norm = QkNorm::before},
    {.name = "starcoder2", .type = neox, .whole_head_only = true},
    {.name = "mamba", .reason = "a state space", .attends = Attends::never},
    {.name = "mamba2", .reason = "a state space", .attends = Attends::never},
    {.name = "maple", .type = neox, .turns = Turns::sliding, .reason = by_design, .window = listed_window, .sliding = Sliding::own_or_full_base, .rotary_dim = RotaryDim::of_each_layer, .norm = QkNorm::before},
    {.name = "jamba", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads},
    {.name = "falcon-h1", .type = neox},
    {.name = "xverse", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "command-r", .type = norm, .norm = QkNorm::before_if_given},
    {.name = "cohere2", .type = norm, .turns = Turns::sliding, .reason = by_design, .window = required_window(4)},
    {.name = "cohere2moe", .type = norm, .turns = Turns::cohere2moe, .reason = by_design, .window = required_window(4, full_first), .whole_head_only = true},
    {.name = "dbrx", .type = neox, .whole_head_only = true},
    {.name = "olmo", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "olmo2", .type = neox, .window = optional_window(4), .sliding = Sliding::full_base_only, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "olmoe", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "muse-glimmer", .type = norm, .turns = Turns::sliding, .reason = by_design, .window = required_window(4), .sliding = Sliding::own_or_full_base_plain, .norm = QkNorm::before, .permuted = true},
    {.name = "openelm", .type = neox, .norm = QkNorm::before},
    {.name = "arctic", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "deepseek", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "deepseek2", .type = norm, .slice = Slice::latent_if_given, .scale = SoftmaxScale::deepseek, .temperature = Temperature::keys, .yarn = YarnKeys::tenfold_both_factors},
    {.name = "deepseek2-ocr", .type = neox, .rotary_dim = RotaryDim::whole_head, .ignores_rope_keys = true, .scale = SoftmaxScale::deepseek},
    {.name = "deepseek32", .type = norm, .slice = Slice::latent_if_given, .scale = SoftmaxScale::deepseek, .yarn = YarnKeys::tenfold},
    {.name = "deepseek4", .type = norm, .window = {.mask = Mask::window, .required = true, .pattern = Window::Pattern::every_layer}, .slice = Slice::shared_key_value, .norm = QkNorm::before, .further_blocks = FurtherBlocks::if_stored},
    {.name = "chatglm", .type = norm},
    {.name = "glm4", .type = norm_or_mrope, .permuted_with_axes = true},
    {.name = "glm4moe", .type = neox_or_mrope, .norm = QkNorm::before},
    {.name = "glm-dsa", .type = norm, .slice = Slice::latent_if_given, .scale = SoftmaxScale::deepseek},
    {.name = "bitnet", .type = neox},
    {.name = "t5", .turns = Turns::none, .reason = "relative position buckets", .scale = SoftmaxScale::one},
    {.name = "t5encoder", .turns = Turns::none, .reason = "relative position buckets", .scale = SoftmaxScale::one},
    {.name = "jais", .turns = Turns::none, .reason = "ALiBi"},
    {.name = "jais2", .type = neox, .whole_head_only = true},
    {.name = "nemotron", .type = neox},
    {.name = "nemotron_h", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads},
    {.name = "nemotron_h_moe", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads},
    {.name = "exaone", .type = neox, .whole_head_only = true, .divisors = Divisors::freqs},
    {.name = "exaone4", .type = neox, .turns = Turns::exaone4, .reason = by_design, .window = {.mask = Mask::window, .size = 4096, .period = 4, .only_of = 64}, .whole_head_only = true, .divisors = Divisors::freqs, .norm = QkNorm::before},
    {.name = "exaone-moe", .type = neox, .turns = Turns::sliding, .reason = by_design, .window = required_window(4), .whole_head_only = true, .divisors = Divisors::freqs, .norm = QkNorm::before},
    {.name = "rwkv6", .reason = "linear attention", .attends = Attends::never},
    {.name = "rwkv6qwen2", .reason = "linear attention", .attends = Attends::never},
    {.name = "rwkv7", .reason = "linear attention", .attends = Attends::never},
    {.name = "arwkv7", .reason = "linear attention", .attends = Attends::never},
    {.name = "granite", .type = norm, .turns = Turns::finetuned, .reason = "rope.scaling.finetuned is false", .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .scale = SoftmaxScale::key, .permuted = true},
    {.name = "granitemoe", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .scale = SoftmaxScale::key, .permuted = true},
    {.name = "granitehybrid", .type = norm, .turns = Turns::finetuned, .reason = "rope.scaling.finetuned is false", .attends = Attends::with_kv_heads, .divisors = Divisors::freqs, .scale = SoftmaxScale::key, .permuted = true},
    {.name = "graniteswitch", .type = norm, .turns = Turns::finetuned, .reason = "rope.scaling.finetuned is false", .whole_head_only = true, .scale = SoftmaxScale::key, .permuted = true},
    {.name = "granite_swa", .type = norm, .turns = Turns::rope_pattern, .reason = "attention.rope_pattern", .window = listed_window, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .scale = SoftmaxScale::key, .permuted = true},
    {.name = "chameleon", .type = norm, .whole_head_only = true, .norm = QkNorm::before, .permuted = true},
    {.name = "wavtokenizer-dec", .reason = "convolutions", .attends = Attends::never},
    {.name = "plm", .type = norm, .slice = Slice::trailing},
    {.name = "bailingmoe", .type = norm, .scale = SoftmaxScale::rotary_dim, .permuted = true},
    {.name = "bailingmoe2", .type = neox, .norm = QkNorm::before},
    {.name = "bailingmoe3", .type = norm_or_mrope, .attends = Attends::with_kv_heads, .slice = Slice::latent},
    {.name = "dots1", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "dots3note", .type = norm, .window = listed_window, .sliding = Sliding::own_base, .slice = Slice::latent_or_sliding},
    {.name = "arcee", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs, .permuted = true},
    {.name = "afmoe", .type = neox, .turns = Turns::but_every_fourth, .reason = by_design, .window = optional_window(4), .sliding = Sliding::own_or_full_base, .norm = QkNorm::before},
    {.name = "laguna", .type = neox, .window = optional_window(4, full_first), .sliding = Sliding::own_or_full_base_only, .rotary_dim = RotaryDim::of_each_layer, .norm = QkNorm::before},
    {.name = "ernie4_5", .type = norm, .whole_head_only = true},
    {.name = "ernie4_5-moe", .type = norm, .whole_head_only = true},
    {.name = "hunyuan-moe", .type = neox, .whole_head_only = true, .norm = QkNorm::after},
    {.name = "hunyuan-dense", .type = neox, .whole_head_only = true, .reads_alpha = true, .norm = QkNorm::after},
    {.name = "hunyuan_vl", .type = neox_or_mrope, .whole_head_only = true, .reads_alpha = true, .norm = QkNorm::after},
    {.name = "hy_v3", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "hy_v4", .type = norm, .slice = Slice::latent},
    {.name = "smollm3", .type = norm, .turns = Turns::but_every_fourth, .reason = by_design, .whole_head_only = true, .permuted = true},
    {.name = "gpt-oss", .type = neox, .window = required_window(2), .sliding = Sliding::own_or_full_base, .scale = SoftmaxScale::rotary_dim, .sinks = true, .note = rounding_note},
    {.name = "lfm2", .type = neox, .attends = Attends::with_kv_heads, .window = {.mask = Mask::window, .pattern = Window::Pattern::every_layer}, .norm = QkNorm::before},
    {.name = "lfm2moe", .type = neox, .attends = Attends::with_kv_heads, .norm = QkNorm::before},
    {.name = "dream", .type = neox, .whole_head_only = true},
    {.name = "smallthinker", .type = neox, .turns = Turns::smallthinker, .reason = by_design, .window = optional_window(4, full_first), .sliding = Sliding::own_or_full_base, .whole_head_only = true},
    {.name = "llada", .type = norm, .whole_head_only = true, .permuted = true},
    {.name = "llada-moe", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "seed_oss", .type = neox, .whole_head_only = true},
    {.name = "grovemoe", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "apertus", .type = neox, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .norm = QkNorm::before},
    {.name = "minimax-01", .type = neox, .attends = Attends::every_eighth},
    {.name = "hrm_text", .type = neox},
    {.name = "minimax-m2", .type = neox, .norm = QkNorm::before},
    {.name = "minimax-m3", .type = neox, .norm = QkNorm::before},
    {.name = "cogvlm", .type = neox, .rotary_dim = RotaryDim::whole_head, .ignores_rope_keys = true},
    {.name = "rnd1", .type = neox, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "pangu-embedded", .type = neox, .whole_head_only = true},
    {.name = "mistral3", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .temperature = Temperature::original_length, .yarn = YarnKeys::mistral3, .permuted = true},
    {.name = "eagle3", .type = norm, .divisors = Divisors::freqs, .permuted = true},
    {.name = "dflash", .type = neox_or_mrope, .window = {.mask = Mask::window, .pattern = Window::Pattern::listed}, .divisors = Divisors::freqs, .scale = SoftmaxScale::key, .norm = QkNorm::before_if_given, .one_axis_is_enough = true, .refused_key = "hyper_connection.count"},
    {.name = "mistral4", .type = norm, .slice = Slice::latent_if_given, .scale = SoftmaxScale::deepseek, .temperature = Temperature::keys, .yarn = YarnKeys::tenfold},
    {.name = "paddleocr", .type = mrope, .whole_head_only = true},
    {.name = "mimo2", .type = neox, .window = listed_window, .sliding = Sliding::own_or_10000_plain},
    {.name = "step35", .type = neox, .window = listed_window, .sliding = Sliding::own_or_10000_plain, .rotary_dim = RotaryDim::half_on_full, .divisors = Divisors::freqs_or_lists_on_full, .norm = QkNorm::before_if_given},
    {.name = "spark2_5", .type = neox, .window = listed_window, .sliding = Sliding::own_or_full_base, .rotary_dim = RotaryDim::of_each_layer},
    {.name = "llama-embed", .type = norm, .whole_head_only = true, .divisors = Divisors::freqs_or_lists, .permuted = true},
    {.name = "maincoder", .type = norm, .whole_head_only = true, .norm = QkNorm::after},
    {.name = "kimi-linear", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads, .slice = Slice::latent},
    {.name = "kimi-k3", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads, .slice = Slice::latent},
    {.name = "glm5-next", .turns = Turns::none, .reason = "no positions", .attends = Attends::with_kv_heads, .slice = Slice::latent},
    {.name = "talkie", .type = neox, .whole_head_only = true, .norm = QkNorm::after},
    {.name = "mellum", .type = neox, .window = optional_window(4), .sliding = Sliding::full_base_only, .whole_head_only = true, .norm = QkNorm::before},
    {.name = "nanbeige", .type = norm, .divisors = Divisors::freqs, .permuted = true},
    {.name = "qwen3tts", .type = imrope, .norm = QkNorm::before},
    {.name = "pockettts", .type = norm, .whole_head_only = true},
    // clang-format on
});

}  // namespace

const Architecture* find_architecture(std::string_view name) noexcept {
  for (const Architecture& architecture : architectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

}  // namespace rotary::gguf
