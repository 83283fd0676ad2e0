#include "rotary/attention.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>

#include "attention/arena.h"
#include "attention/attend.h"
#include "attention/decode.h"
#include "attention/problem.h"
#include "attention/query_block.h"
#include "attention/sequences.h"
#include "attention/visible_keys.h"
#include "attention/workspace.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "kernels/angle_runs.h"

namespace rotary {
namespace {

/// The tasks of a call, one per sequence, KV head and block of rows, and the memory that they need.
template <class T>
class AttentionTasks {
 public:
  explicit AttentionTasks(const AttentionProblem& problem)
      : p_(problem),
        executor_(problem.options.executor),
        block_tiles_{tiles_of_a_block(), 1},
        worker_bytes_(QueryBlock<T>::num_bytes(p_, block_tiles_)) {
    num_tasks_ = num_tasks();
    num_workers_ = std::min(num_tasks_, concurrency(executor_));
    keep_more();
  }

  std::int64_t num_bytes() const noexcept {
    Arena count;
    take(count);
    return count.num_bytes();
  }

  /// `memory` is the first of num_bytes() bytes, at a multiple of 64.
  void run(std::byte& memory) const {
    Arena arena(memory);
    const Memory at = take(arena);
    const VisibleKeys visible(p_);
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) {
      at.sequences[n] = visible.sequence(n);
      for (std::int64_t head = 0; head < p_.num_kv_heads; ++head) {
        std::construct_at(at.blocks_left + n * p_.num_kv_heads + head, num_blocks(at.sequences[n], block_tiles_.rows));
      }
    }
    ProgressCount progress(p_.options.progress, num_tasks_);
    parallel_for(executor_, num_workers_, [&](std::int64_t worker) {
      Arena own(at.workers[worker * worker_bytes_]);
      QueryBlock<T> block(p_, block_tiles_, own);
      // Each thread begins with other heads, whose keys it keeps, and helps with the rest. Late queries see most keys under a
      // causal rule: the long tasks of a head first.
      const std::int64_t num_heads = p_.num_sequences * p_.num_kv_heads, first = worker * num_heads / num_workers_;
      for (std::int64_t n = 0; n < num_heads; ++n) {
        const std::int64_t head = (first + n) % num_heads;
        const AttentionSequence& of = at.sequences[head / p_.num_kv_heads];
        for (std::int64_t i; (i = at.blocks_left[head].fetch_sub(1, std::memory_order_relaxed) - 1) >= 0;) {
          block.attend(of, head % p_.num_kv_heads, i * block_rows());
          progress.finish_one();
        }
      }
    });
  }

 private:
  static constexpr std::int64_t most_kept_bytes = QueryBlock<T>::most_bytes - (1 << 14);  // the rest is for what all share

  struct Memory {
    AttentionSequence* sequences;
    std::atomic<std::int64_t>* blocks_left;  // of each KV head of each sequence
    std::byte* workers;
  };

  Memory take(Arena& arena) const noexcept {
    return {arena.take<AttentionSequence>(p_.num_sequences),
            arena.take<std::atomic<std::int64_t>>(p_.num_sequences * p_.num_kv_heads),
            arena.take<std::byte>(num_workers_ * worker_bytes_)};
  }

  /// As many as there can be while no thread has to wait long for the others.
  std::int64_t tiles_of_a_block() const noexcept {
    constexpr std::int64_t tasks_per_worker = 4;
    const std::int64_t most = QueryBlock<T>::most_tiles(p_), workers = concurrency(executor_);
    if (workers == 1) return most;
    const std::int64_t rows = p_.num_queries * p_.heads_per_kv_head * p_.num_sequences * p_.num_kv_heads;
    return std::clamp(rows / (QueryBlock<T>::tile_rows() * tasks_per_worker * workers), QueryBlock<T>::fewest_tiles, most);
  }

  /// What does not change from block to block stays in the workspace as far as there is room: all keys, beside a few row
  /// tiles, where some sequence has several blocks; and angles that queries and keys share. Longer sequences ask for as much,
  /// so that their workspace serves shorter ones, whose blocks may be smaller.
  void keep_more() noexcept {
    const std::int64_t smallest = concurrency(executor_) == 1 ? block_tiles_.rows : QueryBlock<T>::fewest_tiles;
    std::int64_t kept_keys = 0, reserved_keys = 0;
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) {
      const AttentionSequence s = sequence_tokens(p_, n);
      if (num_blocks(s, block_tiles_.rows) > 1) kept_keys = std::max(kept_keys, s.num_keys);
      if (num_blocks(s, smallest) > 1) reserved_keys = std::max(reserved_keys, s.num_keys);
    }
    const auto tiles_of = [](std::int64_t keys) { return (keys + tile_keys - 1) / tile_keys; };
    const bool angles = p_.turn_alike && p_.num_keys >= fewest_tokens_for_runs;
    const BlockTiles with_angles{block_tiles_.rows, 1, true};
    if (angles) reserve(with_angles);
    if (tiles_of(reserved_keys) > 1) reserve({4, tiles_of(reserved_keys), angles});
    if (const std::int64_t key_tiles = tiles_of(kept_keys); key_tiles > 1) {
      for (const bool keeps_angles : {angles, false}) {
        for (const std::int64_t row_tiles : {4, 2}) {
          if (keep({row_tiles, key_tiles, keeps_angles})) return;
        }
      }
    }
    if (angles) keep(with_angles);
  }

  void reserve(const BlockTiles& tiles) noexcept {
    worker_bytes_ = std::max(worker_bytes_, std::min(QueryBlock<T>::num_bytes(p_, tiles), most_kept_bytes));
  }
  bool keep(const BlockTiles& tiles) noexcept {
    if (QueryBlock<T>::num_bytes(p_, tiles) > most_kept_bytes) return false;
    block_tiles_ = tiles;
    num_tasks_ = num_tasks();
    return true;
  }

  std::int64_t block_rows() const noexcept { return block_tiles_.rows * QueryBlock<T>::tile_rows(); }
  std::int64_t num_blocks(const AttentionSequence& s, std::int64_t row_tiles) const noexcept {
    const std::int64_t rows = row_tiles * QueryBlock<T>::tile_rows();
    return (s.num_queries * p_.heads_per_kv_head + rows - 1) / rows;
  }
  std::int64_t num_tasks() const noexcept {
    std::int64_t blocks = 0;
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) blocks += num_blocks(sequence_tokens(p_, n), block_tiles_.rows);
    return blocks * p_.num_kv_heads;
  }

  const AttentionProblem& p_;
  Executor* executor_;
  BlockTiles block_tiles_;
  std::int64_t worker_bytes_, num_tasks_ = 0, num_workers_ = 0;
};

/// What decode needs, if single queries of the same keys would take that way.
std::int64_t decode_bytes(const AttentionProblem& p) {
  if (!DecodeTasks::suit(p)) return 0;
  const DecodeTasks tasks(p);
  return tasks.fit() ? tasks.num_bytes() : 0;
}

bool computes_in_double(const AttentionProblem& p) noexcept {
  const auto is_double = [](const ConstTensorView& x) { return x.dtype() == DType::f64; };
  return is_double(p.q) || is_double(p.k) || is_double(p.v) || is_double(p.out);
}

/// body(way): the way that suits the problem, which says num_bytes() and does run(memory).
template <class Body>
auto with_way(const AttentionProblem& p, const Body& body) {
  if (computes_in_double(p)) return body(AttentionTasks<double>(p));
  if (has_single_queries(p) && DecodeTasks::suit(p)) {
    if (DecodeTasks tasks(p); tasks.fit()) return body(tasks);
  }
  return body(AttentionTasks<float>(p));
}

}  // namespace

void attend(const AttentionProblem& p) {
  if (p.out.num_elements() == 0) return;
  with_way(p, [&](auto&& way) {
    with_workspace(p.operation, p.options, way.num_bytes(), [&](std::byte& memory) { way.run(memory); });
  });
}

std::int64_t attend_workspace_bytes(const AttentionProblem& p) {
  if (p.out.num_elements() == 0) return 0;
  const std::int64_t num_bytes = with_way(p, [](auto&& way) { return way.num_bytes(); });
  return Arena::alignment + std::max(num_bytes, computes_in_double(p) ? 0 : decode_bytes(p));  // it serves shorter calls
}

const char* name(Causal causal) noexcept {
  switch (causal) {
    case Causal::none: return "none";
    case Causal::top_left: return "top_left";
    case Causal::bottom_right: return "bottom_right";
  }
  return "unknown";
}

void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options) {
  attend(check_attention(q, k, v, out, options));
}

std::int64_t attention_workspace_bytes(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                       const TensorView& out, const AttentionOptions& options) {
  return attend_workspace_bytes(check_attention(q, k, v, out, options));
}

}  // namespace rotary
