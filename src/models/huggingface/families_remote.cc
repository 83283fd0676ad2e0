// Families whose code comes with the weights (auto_map). Their facts were read 2026-11 in the configuration and modelling
// files of the checkpoints, or in what vLLM, mlx-lm and llama.cpp make of these; rows whose source says "from memory" were
// not checked against code. One row a line.
//
// Left out, as a row could not say what their code does: telechat (a base and a magnitude that grow from the first token on),
// openelm, deci, nemotron-nas and baichuan_m1 (heads that differ by layer), plamo, plamo2 and plamo3 (heads and layers by rules
// of their own), grok-2 (flat keys of a YaRN without magnitude), minicpmv and minicpmo (the text model is told by a version).

#include "models/huggingface/families.h"

namespace rotary::huggingface {
namespace {

constexpr Pairing interleaved = Pairing::interleaved;
constexpr Pairing to_half = Pairing::half;
constexpr NormOrder before = NormOrder::before_rotation;
constexpr NormOrder after = NormOrder::after_rotation;
constexpr PositionKind none = PositionKind::none;
constexpr std::string_view remote = "code of the checkpoint";
constexpr std::string_view recalled = "code of the checkpoint, from memory";

// clang-format off
constexpr Family rows[] = {
  Family{.model_type = "aquila", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .source = remote},
  Family{.model_type = "arctic", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 4096}, .base = 1e6, .source = remote},
  Family{.model_type = "baichuan", .why = "ALiBi (the 13B model)", .defaults = {.layers = 32, .q_heads = 32, .length = 4096}, .aliases = "max_position_embeddings=model_max_length max_position_embeddings=max_sequence_length", .turns = if_equal("hidden_size", 4096, 5120), .source = remote, .note = "the 7B model turns and the 13B model has ALiBi under one model_type: hidden_size tells them apart"},
  Family{.model_type = "bailing_moe", .defaults = {.layers = 24, .q_heads = 16, .hidden = 1024, .length = 16384}, .source = remote},
  Family{.model_type = "bailing_moe_v2", .slice = share(0.5), .norm = before, .norm_key = "use_qk_norm", .source = remote},
  Family{.model_type = "chatglm", .defaults = {.layers = 28, .q_heads = 32, .head_dim = 128, .hidden = 4096, .length = 2048}, .aliases = "num_hidden_layers=num_layers head_dim=kv_channels num_key_value_heads=multi_query_group_num max_position_embeddings=seq_length", .kv_heads_flag = "multi_query_attention", .pairing = interleaved, .slice = share(0.5, ""), .base_key = "rope_ratio", .base_is_ratio = true, .refusals = {{{"position_encoding_2d", "the first ChatGLM turns by two positions at once"}}}, .source = remote},
  Family{.model_type = "codeshell", .defaults = {.layers = 42, .q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 8192}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions num_key_value_heads=num_query_groups", .kv_heads_flag = "group_query_attention", .base_key = "", .turns = if_named("position_embedding_type", "rope", false), .source = remote},
  Family{.model_type = "cogvlm", .source = recalled, .note = "the tokens of a picture share a few positions"},
  Family{.model_type = "deepseek", .defaults = {.layers = 30, .q_heads = 32, .kv_heads = 32, .hidden = 4096, .length = 2048}, .source = remote},
  Family{.model_type = "deepseek_vl_v2", .parts = "language_config=deepseek_v2* vision_config=siglip_vision_model", .source = recalled},
  Family{.model_type = "Dream", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 32, .hidden = 4096, .length = 32768}, .source = remote},
  Family{.model_type = "gpt_refact", .positions = none, .why = "ALiBi", .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions", .source = remote},
  Family{.model_type = "grok-1", .defaults = {.layers = 64, .q_heads = 48, .kv_heads = 8, .hidden = 6144, .length = 8192}, .scale = Scale::number, .scale_key = "attn_output_multiplier", .scale_value = 0.08838834764831845, .softcap = 30, .source = recalled},
  Family{.model_type = "grove_moe", .norm = before, .source = recalled},
  Family{.model_type = "h2ovl_chat", .parts = "llm_config=* vision_config=intern_vit_6b*", .source = remote},
  Family{.model_type = "hunyuan", .aliases = "head_dim=attention_head_dim", .alpha_is_ntk = true, .norm = after, .norm_key = "use_qk_norm", .source = remote, .note = "with use_cla some layers reuse keys that another one has turned"},
  Family{.model_type = "intern_vit_6b", .positions = none, .why = "learned positions", .source = recalled},
  Family{.model_type = "internlm", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .refusals = {{{"rotary", "the file has a rule of its own there"}}}, .source = recalled},
  Family{.model_type = "internlm2", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .source = remote},
  Family{.model_type = "internvl_chat", .parts = "llm_config=* vision_config=intern_vit_6b*", .source = recalled},
  Family{.model_type = "jais", .positions = none, .why = "learned positions", .other_why = {"position_embedding_type", "alibi", "ALiBi"}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions", .source = remote},
  Family{.model_type = "kclgpt", .defaults = {.layers = 42, .q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 8192}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions num_key_value_heads=num_query_groups", .kv_heads_flag = "group_query_attention", .base_key = "", .turns = if_named("position_embedding_type", "rope", false), .source = remote},
  Family{.model_type = "kimi_k2", .defaults = {.layers = 61, .q_heads = 128, .kv_heads = 128, .hidden = 7168, .length = 4096, .nope = 128, .rope = 64}, .pairing = interleaved, .pairing_out = to_half, .slice = mla(), .scale = Scale::mla, .source = remote},
  Family{.model_type = "kimi_vl", .parts = "text_config=deepseek_v3* vision_config=moonvit*", .source = remote},
  Family{.model_type = "llada", .defaults = {.layers = 12, .q_heads = 12, .hidden = 768, .length = 1024}, .aliases = "hidden_size=d_model num_attention_heads=n_heads num_key_value_heads=n_kv_heads num_hidden_layers=n_layers max_position_embeddings=max_sequence_length", .turns = if_true("rope", false), .norm = before, .norm_key = "attention_layer_norm", .norm_where_missing = false, .refusals = {{{"multi_query_attention", "all query heads then share one key head"}}}, .source = remote},
  Family{.model_type = "llada2_moe", .slice = share(0.5), .norm = before, .norm_key = "use_qk_norm", .source = recalled},
  Family{.model_type = "llada_moe", .norm = before, .source = remote},
  Family{.model_type = "llava_llama", .source = recalled, .note = "the keys of the tower are not read"},
  Family{.model_type = "llava_mistral", .source = recalled, .note = "the keys of the tower are not read"},
  Family{.model_type = "llava_qwen", .source = recalled, .note = "the keys of the tower are not read"},
  Family{.model_type = "maincoder", .pairing = interleaved, .source = remote, .note = "that it pairs neighbours is inferred: llama.cpp turns neighbours without permuting its weights"},
  Family{.model_type = "mimo", .source = recalled},
  Family{.model_type = "minicpm", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .aliases = "head_dim=kv_channels", .source = remote, .note = "where rope_theta is missing, its own code takes 10000 and mlx-lm 1000000"},
  Family{.model_type = "minimax_m1", .defaults = {.q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072}, .slice = channels(0), .base = 1e6, .layers = flags("attn_type_list", "full_attention", "linear_attention"), .source = remote},
  Family{.model_type = "minimax_text_01", .defaults = {.q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072}, .slice = channels(0), .base = 1e6, .layers = flags("attn_type_list", "full_attention", "linear_attention"), .source = remote},
  Family{.model_type = "minimax_vl_01", .parts = "text_config=minimax_text_01* vision_config=clip_vision_model*", .source = recalled},
  Family{.model_type = "MiniMaxM1", .defaults = {.q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072}, .slice = channels(0), .base = 1e6, .layers = flags("attn_type_list", "full_attention", "linear_attention"), .source = remote},
  Family{.model_type = "MiniMaxText01", .defaults = {.q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 131072}, .slice = channels(0), .base = 1e6, .layers = flags("attn_type_list", "full_attention", "linear_attention"), .source = remote},
  Family{.model_type = "mixformer-sequential", .defaults = {.layers = 20, .q_heads = 16, .hidden = 1024, .length = 2048}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions num_key_value_heads=n_head_kv", .slice = channels(32), .base_key = "", .source = recalled},
  Family{.model_type = "moonvit", .defaults = {.layers = 27, .q_heads = 16, .hidden = 1152}, .pairing = interleaved, .base_key = "", .axes = Axes::moonvit, .source = remote, .note = "transformers' port (kimi_k25) pairs halves instead of neighbours"},
  Family{.model_type = "nanbeige", .source = remote},
  Family{.model_type = "orion", .defaults = {.layers = 40, .q_heads = 40, .hidden = 5120}, .aliases = "max_position_embeddings=max_sequence_length max_position_embeddings=model_max_length", .source = remote},
  Family{.model_type = "PanguEmbedded", .source = remote},
  Family{.model_type = "phi-msft", .defaults = {.layers = 20, .q_heads = 16, .hidden = 1024, .length = 2048}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions num_key_value_heads=n_head_kv", .slice = channels(32), .base_key = "", .source = recalled},
  Family{.model_type = "phi3_v", .defaults = {.layers = 32, .q_heads = 32, .hidden = 3072, .length = 4096}, .yarn_is_longrope = true, .source = recalled},
  Family{.model_type = "phi3small", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 8, .hidden = 4096, .length = 8192}, .base = 1e6, .base_key = "rope_embedding_base", .scale = Scale::over_head_dim, .scale_key = "mup_attn_multiplier", .scale_value = 1, .refusals = {{{"rope_position_scale", "positions are multiplied by it", 1}}}, .source = remote},
  Family{.model_type = "plm", .pairing = interleaved, .pairing_out = to_half, .slice = mla(), .source = remote, .note = "the order in which its own code writes the turned channels is recalled, not read"},
  Family{.model_type = "qwen", .defaults = {.layers = 32, .q_heads = 32, .head_dim = 128, .hidden = 4096, .length = 8192}, .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head hidden_size=n_embd max_position_embeddings=n_positions head_dim=kv_channels", .slice = share(1, "rotary_pct"), .base_key = "rotary_emb_base", .prompt_ntk_flag = "use_dynamic_ntk", .temperature = Temperature::logn, .source = remote},
  Family{.model_type = "RefinedWeb", .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head num_key_value_heads=n_head_kv", .multi_query_flag = "multi_query", .base_key = "", .turns = unless_true("alibi"), .source = recalled},
  Family{.model_type = "RefinedWebModel", .aliases = "num_hidden_layers=n_layer num_attention_heads=n_head num_key_value_heads=n_head_kv", .multi_query_flag = "multi_query", .base_key = "", .turns = unless_true("alibi"), .source = recalled},
  Family{.model_type = "rwkv5", .positions = none, .why = "no softmax attention", .layers = alike("rwkv"), .source = remote},
  Family{.model_type = "rwkv6", .positions = none, .why = "no softmax attention", .layers = alike("rwkv"), .source = remote},
  Family{.model_type = "rwkv7", .positions = none, .why = "no softmax attention", .layers = alike("rwkv"), .source = remote},
  Family{.model_type = "skywork", .source = recalled},
  Family{.model_type = "smallthinker", .layers = flags("sliding_window_layout", "sliding_attention", "full_attention"), .turns = by_list("rope_layout"), .window_key = "sliding_window_size", .source = remote, .note = "llama.cpp derives the layers without rotation from the window instead of rope_layout"},
  Family{.model_type = "solar", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096, .length = 2048}, .source = remote, .note = "which layers have the window of sliding_window is not read"},
  Family{.model_type = "stablelm_epoch", .slice = share(0.25, "rope_pct"), .source = remote},
  Family{.model_type = "telechat3", .source = remote},
  Family{.model_type = "xverse", .defaults = {.layers = 32, .q_heads = 32, .hidden = 4096}, .aliases = "max_position_embeddings=model_max_length", .source = remote, .note = "the code of the 7B and 13B models has base 10000 whatever rope_theta says"},
  Family{.model_type = "Yi", .defaults = {.layers = 32, .q_heads = 32, .kv_heads = 4, .hidden = 4096, .length = 4096}, .base = 5e6, .source = recalled},
};
// clang-format on

}  // namespace

std::span<const Family> remote_families() { return rows; }

}  // namespace rotary::huggingface
