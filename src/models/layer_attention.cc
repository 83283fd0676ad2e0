#include "models/layer_attention.h"

#include <algorithm>

#include "base/fail.h"
#include "rotation/positions.h"

namespace rotary {
namespace {

void require_supported(const char* operation, const LayerRotation& layer) {
  if (layer.key_scale() != 1) {
    fail_unsupported(operation, "the layer multiplies keys by ", layer.key_scale(),
                     ", which attention does not support yet");
  }
  if (layer.norm_order() == NormOrder::after_rotation) {
    fail_unsupported(operation, "the layer normalises queries and keys after they turn, which attention does not support");
  }
  if (layer.rotates_values() || layer.unrotates_output()) {
    fail_unsupported(operation, "the layer turns values, too, which attention does not support yet");
  }
}

/// How many keys before the query's own a window shows.
std::int64_t keys_before(const LayerRotation& layer) noexcept {
  return layer.window_is_symmetric() ? (layer.sliding_window() - 1) / 2 : layer.sliding_window() - 1;
}

}  // namespace

LayerAttention::LayerAttention(const char* operation, const LayerRotation& layer, const ConstTensorView& q,
                               const Positions& q_positions)
    : chunk_size_(layer.attention_chunk_size()), softcap_(layer.softcap()) {
  require_supported(operation, layer);
  if (layer.sliding_window() != 0) window_left_ = keys_before(layer);
  if (layer.sliding_window() != 0 && layer.window_is_symmetric()) window_right_ = window_left_;
  const Tokens queries = tokens_of(operation, q);
  is_packed_ = queries.packed;
  batch_ = queries.batch;
  length_ = queries.length;
  const QueryTemperature& temperature = layer.query_temperature();
  if (temperature.kind == QueryTemperature::Kind::none) return;
  const auto num_axes = static_cast<int>(std::min<std::int64_t>(q_positions.position_ids.size('A'), max_position_axes));
  const TokenPositions positions(operation, q_positions, queries, num_axes);
  for (std::int64_t b = 0; b < batch_; ++b) {
    for (std::int64_t s = 0; s < length_; ++s) {
      double position[max_position_axes];
      positions.read(b, s, position);
      temperatures_.push_back(temperature.at(position[0]));
    }
  }
}

void LayerAttention::add_to(AttentionOptions& options) const {
  options.window_left = window_left_;
  options.window_right = window_right_;
  options.chunk_size = chunk_size_;
  options.softcap = softcap_;
  if (temperatures_.empty()) return;
  options.temperatures = is_packed_ ? ConstTensorView(temperatures_.data(), "T", {length_})
                                    : ConstTensorView(temperatures_.data(), "BS", {batch_, length_});
}

double LayerAttention::temperature(std::int64_t row, std::int64_t token) const {
  return temperatures_.empty() ? 1 : temperatures_[static_cast<std::size_t>(row * length_ + token)];
}

void require_plain_attention(const char* operation, const LayerRotation& layer, std::int64_t num_keys,
                             std::int64_t length) {
  const std::int64_t window = layer.sliding_window(), chunk = layer.attention_chunk_size();
  if (window != 0 && num_keys > keys_before(layer) + 1) {
    fail_unsupported(operation, "the layer's sliding window of ", window, " keys can hide some of the ", num_keys,
                     ", which linear attention does not have");
  }
  if (chunk != 0 && length > chunk) {
    fail_unsupported(operation, "the layer's chunks of ", chunk, " positions, of ", length,
                     ", hide keys of other chunks, which linear attention does not have");
  }
  if (layer.softcap() != 0) {
    fail_unsupported(operation, "the layer caps its scores at ", layer.softcap(), ", which linear attention does not have");
  }
  if (layer.has_sinks()) {
    fail_unsupported(operation, "the layer has sinks in the sum of its softmax, which linear attention does not have");
  }
  if (length > 0 && layer.query_temperature().at(static_cast<double>(length - 1)) != 1) {
    fail_unsupported(operation, "the layer multiplies queries by a factor of their position, ",
                     layer.query_temperature().at(static_cast<double>(length - 1)), " at ", length - 1,
                     ", which linear attention does not have");
  }
  require_supported(operation, layer);
}

}  // namespace rotary
