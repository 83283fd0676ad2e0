#include "models/gguf/gguf_layers.h"

#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/fail.h"
#include "models/description.h"

namespace rotary::gguf {
namespace {

class Reader {
 public:
  Reader(const Architecture& architecture, GgufKeys& keys, const GgufFile& file, Findings& findings)
      : architecture_(architecture), keys_(keys), file_(file), findings_(findings) {}

  GgufLayers read() {
    num_blocks_ = keys_.required_count("block_count").value;
    if (num_blocks_ > max_layers) keys_.refuse("block_count", sentence("at most ", max_layers), num_blocks_);
    const std::int64_t num_layers = num_blocks_ - num_further_blocks();
    if (num_layers < 1) keys_.refuse("nextn_predict_layers", "below block_count", num_blocks_ - num_layers);
    out_.layers.resize(static_cast<std::size_t>(num_layers));
    read_heads();
    if (architecture_.attends == Attends::never) return std::move(out_);
    read_attention();
    read_window();
    read_turns();
    if (architecture_.slice == Slice::shared_key_value) read_compression();
    read_sinks();
    return std::move(out_);
  }

 private:
  std::int64_t num_layers() const { return static_cast<std::int64_t>(out_.layers.size()); }

  std::string code(const char* what) const { return sentence("code of ", architecture_.name, " in llama.cpp: ", what); }

  /// Blocks after the last layer, which predict further tokens.
  std::int64_t num_further_blocks() {
    const auto given = keys_.whole("nextn_predict_layers");
    if (!given || architecture_.further_blocks == FurtherBlocks::not_apart) return 0;
    if (given->value > num_blocks_) keys_.refuse("nextn_predict_layers", "at most block_count", given->value);
    if (architecture_.further_blocks == FurtherBlocks::if_stored) {
      const std::string probe = sentence("blk.", num_blocks_ - given->value, ".nextn.eh_proj.weight");
      if (file_.find_tensor(probe.c_str()) == nullptr) return 0;
    }
    return given->value;
  }

  /// blk.3.attn_sinks.weight
  void read_sinks() {
    for (GgufLayer& layer : out_.layers) layer.sinks = layer.attends && architecture_.sinks;
    constexpr std::string_view before = "blk.", after = ".attn_sinks.weight";
    for (const GgufTensor& tensor : file_.tensors()) {
      const std::string_view name = tensor.name;
      if (!name.starts_with(before) || !name.ends_with(after) || name.size() < before.size() + after.size()) continue;
      const std::string_view number = name.substr(before.size(), name.size() - before.size() - after.size());
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
      const bool is_layer = error == std::errc() && end == number.data() + number.size() && index < out_.layers.size();
      if (is_layer && out_.layers[index].attends) out_.layers[index].sinks = true;
    }
  }

  void read_heads() {
    const bool must_attend = architecture_.attends != Attends::never;
    const auto heads = keys_.wholes("attention.head_count", num_blocks_);
    if (!heads && must_attend) fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".attention.head_count");
    const auto kv_heads = keys_.wholes("attention.head_count_kv", num_blocks_);
    if (!must_attend) {
      for (GgufLayer& layer : out_.layers) layer = {.attends = false, .turns = false};
      return;
    }
    out_.heads_source = heads->source;
    out_.kv_heads_source = kv_heads ? kv_heads->source : "as many as query heads, as the file names no other number";
    for (std::size_t i = 0; i < out_.layers.size(); ++i) {
      GgufLayer& layer = out_.layers[i];
      layer.num_q_heads = heads->value[i];
      layer.num_kv_heads = (kv_heads ? *kv_heads : *heads).value[i];
      check_heads(layer);
    }
  }

  void check_heads(const GgufLayer& layer) const {
    if (layer.num_q_heads > max_heads) {
      keys_.refuse("attention.head_count", sentence("at most ", max_heads), layer.num_q_heads);
    }
    if (architecture_.attends != Attends::with_kv_heads) {
      if (layer.num_q_heads == 0) keys_.refuse("attention.head_count", "at least 1", 0);
      if (layer.num_kv_heads == 0) keys_.refuse("attention.head_count_kv", "at least 1", 0);
    }
    if (layer.num_kv_heads != 0 && layer.num_q_heads % layer.num_kv_heads != 0) {
      keys_.refuse("attention.head_count_kv", sentence("a divisor of head_count, which is ", layer.num_q_heads),
                   layer.num_kv_heads);
    }
  }

  void read_attention() {
    switch (architecture_.attends) {
      case Attends::every_layer:
      case Attends::never: return;
      case Attends::with_kv_heads:
        for (GgufLayer& layer : out_.layers) layer.attends = layer.num_q_heads != 0 && layer.num_kv_heads != 0;
        break;
      case Attends::every_fourth: attend_every(4); break;
      case Attends::every_eighth: attend_every(8); break;
    }
    // What a layer without attention says about heads is none of ours.
    for (GgufLayer& layer : out_.layers) {
      if (!layer.attends) layer = {.attends = false, .turns = false};
    }
  }

  void attend_every(std::int64_t interval) {
    if (const auto recurrent = keys_.flags("attention.recurrent_layers", num_layers())) {
      for (std::size_t i = 0; i < out_.layers.size(); ++i) out_.layers[i].attends = !recurrent->value[i];
      return;
    }
    if (const auto given = keys_.count("full_attention_interval")) interval = given->value;
    for (std::int64_t i = 0; i < num_layers(); ++i)
      out_.layers[static_cast<std::size_t>(i)].attends = (i + 1) % interval == 0;
  }

  // ---- windows -----------------------------------------------------------------------------------------------------------

  void read_window() {
    Window window = architecture_.window;
    const char* key = "attention.sliding_window";
    const auto given = keys_.whole(key);
    if (window.mask == Mask::none || (window.only_of != 0 && num_layers() != window.only_of)) {
      if (given && given->value > 0) {
        findings_.warn("RP020", keys_.whole_key(key) + " has no effect: llama.cpp lets these layers see all keys");
      }
      return;
    }
    if (window.required && !given) keys_.required_count(key);
    if (given) out_.window = *given;
    else if (window.size != 0) out_.window = {window.size, code("the size where the file names none")};
    if (out_.window.value == 0) return;
    // These two read the key only to see whether there is a window.
    if (architecture_.turns == Turns::llama4) out_.window = {window.size, code("chunks of 8192, whatever the file says")};
    if (architecture_.turns == Turns::smallthinker) out_.window = {4096, code("4096, whatever the file says")};
    out_.mask = window.mask;
    read_pattern(window);
  }

  void read_pattern(Window window) {
    const char* key = "attention.sliding_window_pattern";
    if (window.pattern == Window::Pattern::every_layer) {
      for (GgufLayer& layer : out_.layers) layer.slides = layer.attends;
      out_.slides_source = code("every layer");
      return;
    }
    if (const auto list = keys_.flags(key, num_layers())) {
      for (std::size_t i = 0; i < out_.layers.size(); ++i) out_.layers[i].slides = list->value[i];
      out_.slides_source = list->source;
      return;
    }
    if (window.pattern == Window::Pattern::listed) {
      fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".", key, ", a list");
    }
    out_.slides_source = code("the pattern of layers");
    if (const auto period = keys_.whole(key)) {
      window.period = period->value;
      out_.slides_source = period->source;
    }
    for (std::int64_t i = 0; i < num_layers(); ++i) {
      const bool is_full = window.period != 0 && i % window.period == (window.full_first ? 0 : window.period - 1);
      out_.layers[static_cast<std::size_t>(i)].slides = !is_full;
    }
  }

  void read_compression() {
    const char* key = "attention.compress_ratios";
    const auto ratios = keys_.flags(key, num_blocks_);
    if (!ratios) fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".", key, ", a list");
    for (std::size_t i = 0; i < out_.layers.size(); ++i) out_.layers[i].compressed = ratios->value[i];
  }

  // ---- rotation ----------------------------------------------------------------------------------------------------------

  template <class Rule>
  void turn_where(const Rule& turns) {
    for (std::int64_t i = 0; i < num_layers(); ++i) {
      GgufLayer& layer = out_.layers[static_cast<std::size_t>(i)];
      layer.turns = layer.attends && turns(i, layer);
    }
  }

  void read_turns() {
    const bool has_window = out_.mask != Mask::none;
    out_.turns_source = code("which layers turn");
    switch (architecture_.turns) {
      case Turns::all: return;
      case Turns::none: return turn_where([](std::int64_t, const GgufLayer&) { return false; });
      case Turns::sliding: return turn_where([](std::int64_t, const GgufLayer& layer) { return layer.slides; });
      case Turns::exaone4:
        return turn_where([&](std::int64_t, const GgufLayer& layer) { return layer.slides || !has_window; });
      case Turns::but_every_fourth: return turn_where([](std::int64_t i, const GgufLayer&) { return (i + 1) % 4 != 0; });
      case Turns::smallthinker:
        return turn_where([&](std::int64_t i, const GgufLayer&) { return !has_window || i % 4 != 0; });
      case Turns::llama4: {
        const std::int64_t step = has_window ? 4 : num_layers();
        if (!has_window) {
          findings_.warn("RP024",
                         "with " + keys_.source("attention.sliding_window") +
                             " 0, llama.cpp turns every layer but the last, which is followed here; its comment says "
                             "that every layer turns");
        }
        return turn_where([&](std::int64_t i, const GgufLayer&) { return (i + 1) % step != 0; });
      }
      case Turns::cohere2moe: {
        const auto given = keys_.whole("leading_dense_block_count");
        const std::int64_t dense = given ? given->value : 0;
        return turn_where([&](std::int64_t i, const GgufLayer& layer) { return layer.slides || i < dense; });
      }
      case Turns::finetuned: {
        const auto given = keys_.boolean("rope.scaling.finetuned");
        if (given) out_.turns_source = given->source;
        return turn_where([&](std::int64_t, const GgufLayer&) { return !given || given->value; });
      }
      case Turns::rope_pattern: {
        const auto given = keys_.flags("attention.rope_pattern", num_layers());
        if (!given) return;
        out_.turns_source = given->source;
        return turn_where(
            [&](std::int64_t i, const GgufLayer&) { return bool{given->value[static_cast<std::size_t>(i)]}; });
      }
      case Turns::baichuan: {
        if (num_layers() != 32 && num_layers() != 40) {
          findings_.tolerate(
              "RP025", keys_.path(),
              sentence("a baichuan must have 32 layers, which turn, or 40, which do not, got ", num_layers()),
              "llama.cpp turns none then");
        }
        return turn_where([&](std::int64_t, const GgufLayer&) { return num_layers() == 32; });
      }
    }
  }

  const Architecture& architecture_;
  GgufKeys& keys_;
  const GgufFile& file_;
  Findings& findings_;
  std::int64_t num_blocks_ = 0;
  GgufLayers out_;
};

}  // namespace

GgufLayers read_gguf_layers(const Architecture& architecture, GgufKeys& keys, const GgufFile& file, Findings& findings) {
  return Reader(architecture, keys, file, findings).read();
}

}  // namespace rotary::gguf
