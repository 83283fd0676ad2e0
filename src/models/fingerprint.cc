// The fingerprint: what decides whether rotated keys in a cache can be exchanged, and nothing else.
//
// Per layer: whether it rotates, num_kv_heads, head_dim, what multiplies keys, which channels pair up before and after, the
// axis of each pair, the direction, and inv_freq and amplitude at all lengths at which they could change. Softmax scales,
// query heads, windows and names stay out: they do not touch keys.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "models/description.h"
#include "models/telling_lengths.h"

namespace rotary {
namespace {

/// FNV-1a, 64 bits: no secret is kept here, only equality.
class Hash {
 public:
  void add(std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      state_ = (state_ ^ ((word >> (8 * byte)) & 0xff)) * 0x100000001b3u;
    }
  }
  void add(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }
  /// To 40 bits, so that the last bits of another libm's pow do not matter.
  void add(double number) {
    constexpr std::uint64_t half_of_dropped = std::uint64_t{1} << 11;
    add((std::bit_cast<std::uint64_t>(number) + half_of_dropped) >> 12);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

void add_rotation(Hash& hash, const Rotation& rotation) {
  hash.add(rotation.num_pairs());
  for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
    const auto pair = static_cast<std::size_t>(j);
    for (const Pair& channels : {rotation.pairs_in()[pair], rotation.pairs_out()[pair]}) {
      hash.add(channels.first);
      hash.add(channels.second);
    }
    hash.add(rotation.inv_freq()[pair]);
    hash.add(std::int64_t{rotation.axis()[pair]});
  }
  hash.add(rotation.amplitude());
  hash.add(std::int64_t{rotation.direction()});
}

void hash_kind(Hash& hash, const LayerDescription& kind, std::int64_t max_length) {
  hash.add(static_cast<std::int64_t>(kind.turning));
  if (kind.turning == Turning::no_attention) return;
  hash.add(kind.head_dim);
  hash.add(kind.num_kv_heads);
  if (kind.key_scale != 1) hash.add(kind.key_scale);
  if (kind.turning != Turning::rotates) return;
  if (!kind.rule.depends_on_length()) return add_rotation(hash, kind.rotation_at(0));
  for (const std::int64_t length : telling_lengths(kind.original_max_position_embeddings, max_length)) {
    add_rotation(hash, kind.rotation_at(length));
  }
}

}  // namespace

std::string fingerprint_of(const ModelDescription& model) {
  std::vector<std::uint64_t> kinds;
  for (const LayerDescription& kind : model.kinds) {
    Hash hash;
    hash_kind(hash, kind, model.max_position_embeddings);
    kinds.push_back(hash.value());
  }
  Hash whole;
  for (const std::size_t kind : model.kind_of_layer) whole.add(kinds[kind]);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(whole.value()));
  return digits;
}

}  // namespace rotary
