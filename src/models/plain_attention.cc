#include "models/plain_attention.h"

#include "base/fail.h"

namespace rotary {
namespace {

void require_visible_keys(const char* operation, const LayerRotation& layer, std::int64_t num_keys) {
  const std::int64_t window = layer.sliding_window();
  const std::int64_t reach = layer.window_is_symmetric() ? (window + 1) / 2 : window;
  if (window != 0 && num_keys > reach) {
    fail_unsupported(operation, "the layer's sliding window of ", window, " keys hides some of the ", num_keys,
                     ", which attention does not support yet");
  }
  const std::int64_t chunk = layer.attention_chunk_size();
  if (chunk != 0 && num_keys > chunk) {
    fail_unsupported(operation, "the layer's chunks of ", chunk, " positions hide some of the ", num_keys,
                     " keys, which attention does not support yet");
  }
}

}  // namespace

void require_plain_attention(const char* operation, const LayerRotation& layer, std::int64_t num_keys,
                             std::int64_t length) {
  require_visible_keys(operation, layer, num_keys);
  if (length > 0 && layer.query_temperature().at(static_cast<double>(length - 1)) != 1) {
    fail_unsupported(operation, "the layer multiplies queries by a factor of their position, ",
                     layer.query_temperature().at(static_cast<double>(length - 1)), " at ", length - 1,
                     ", which attention does not support yet");
  }
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

}  // namespace rotary
