// What a cache is made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "attention/kv_blocks.h"
#include "rotary/kv_cache.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// Token i is in blocks[i / block_size], slot i % block_size. A block may be shared with a sequence that has more tokens in
/// it, or fewer.
struct KvSequence {
  std::vector<std::int32_t> blocks;
  std::int64_t num_tokens = 0;
  double next_position = 0;
};

/// Tokens first … first + count - 1 of a sequence, which lie side by side in one block.
struct KvRun {
  std::int32_t block;
  std::int64_t slot, first, count;
};

struct KvState {
  KvState(const KvCacheOptions& given, int num_axes);

  /// Throws Error (invalid_argument), in the name of `operation`.
  KvSequence& sequence(const char* operation, std::int64_t n);
  void check_tokens(const char* operation, const KvSequence& sequence, std::int64_t begin, std::int64_t end) const;
  /// Throws Error (exhausted) unless there are as many.
  void check_free(const char* operation, std::int64_t needed, std::int64_t available) const;

  std::int64_t num_blocks_for(std::int64_t tokens) const noexcept {
    return (tokens + options.block_size - 1) / options.block_size;
  }
  /// How many of the blocks first … end - 1 of a sequence others hold, too.
  std::int64_t num_shared(const KvSequence& sequence, std::int64_t first, std::int64_t end) const noexcept;
  void find_next_position(KvSequence& sequence) const noexcept;

  std::optional<Rotation> rotation;
  KvCacheOptions options;  // `rotation` points to the one above
  KvBlocks blocks;
  std::vector<KvSequence> sequences;
};

/// The inside of a cache, for the functions of this room.
struct KvCacheAccess {
  static KvState& state(const KvCache& cache) noexcept { return *cache.state_; }
};

/// Blocks taken from the pool for a change: they go back, unless it is completed.
class NewBlocks {
 public:
  NewBlocks(KvBlocks& pool, std::int64_t most) : pool_(pool) { taken_.reserve(static_cast<std::size_t>(most)); }
  ~NewBlocks() {
    for (const std::int32_t block : taken_) pool_.release(block);
  }
  NewBlocks(const NewBlocks&) = delete;
  NewBlocks& operator=(const NewBlocks&) = delete;

  std::int32_t take() noexcept {
    taken_.push_back(pool_.take());
    return taken_.back();
  }
  void keep() noexcept { taken_.clear(); }

 private:
  KvBlocks& pool_;
  std::vector<std::int32_t> taken_;
};

/// body(run) for the tokens begin … end - 1 of a table of blocks, in order; no run is longer than `most`.
template <class Body>
void for_runs(const std::vector<std::int32_t>& table, std::int64_t block_size, std::int64_t begin, std::int64_t end,
              std::int64_t most, const Body& body) {
  for (std::int64_t token = begin; token < end;) {
    const std::int64_t slot = token % block_size;
    const std::int64_t count = std::min({block_size - slot, end - token, most});
    body(KvRun{table[static_cast<std::size_t>(token / block_size)], slot, token, count});
    token += count;
  }
}

}  // namespace rotary
