// One thread of a decode: the query of a sequence against the keys that it sees, for the query heads of some KV heads.
//
// Keys go by in steps. The next step is located, and where keys turn on the way it is turned, before this one is computed,
// so that its rows can be fetched meanwhile.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/arena.h"
#include "attention/problem.h"
#include "attention/sequences.h"
#include "attention/tensor_rows.h"
#include "attention/turned_rows.h"
#include "attention/visible_keys.h"
#include "kernels/decode.h"

namespace rotary {

/// The numbers of a call that every task needs.
struct DecodeShape {
  explicit DecodeShape(const AttentionProblem& problem) noexcept;

  DType dtype;                       // of keys and values
  std::int64_t heads;                // that share a KV head
  std::int64_t head_dim, value_dim;  // with the zeros at the end of a row
  bool keys_are_lanes;
  std::int64_t keys_in_a_row;  // of one head: as many are worth reading before those of the next one
};

/// KV heads of one sequence that are done together.
struct HeadRange {
  std::int64_t first, count;
};

/// What becomes of some keys: of each head of some KV heads.
struct PartSums {
  float *out, *reference, *sum;

  static PartSums take(Arena& arena, const DecodeShape& shape, std::int64_t num_kv_heads) noexcept;
  PartSums of(std::int64_t kv_head, const DecodeShape& shape) const noexcept;
};

/// The keys of a sequence are cut into so many parts, each with its own softmax.
std::int64_t num_parts(const KeyRange& keys) noexcept;
constexpr std::int64_t most_parts = 8;

/// One thread, and its workspace.
class Decoder {
 public:
  /// Refers to both. It can do nothing before lay_out().
  Decoder(const AttentionProblem& problem, const VisibleKeys& visible);

  /// Takes its memory for up to `most_heads` KV heads at once, or counts it.
  void lay_out(Arena& arena, std::int64_t most_heads);

  const DecodeShape& shape() const noexcept { return shape_; }

  /// All of it: the query of one sequence, for the heads of some KV heads.
  void attend(const AttentionSequence& s, const HeadRange& kv_heads);

  /// Part `i` of the `count` parts of the keys.
  void attend_part(const AttentionSequence& s, const KeyRange& keys, const HeadRange& kv_heads, std::int64_t i,
                   std::int64_t count, const PartSums& sums);
  /// Adds what other keys gave.
  void merge(const PartSums& part, const PartSums& whole, std::int64_t num_kv_heads) const noexcept;
  /// Uses up the sums.
  void write(const AttentionSequence& s, const HeadRange& kv_heads, const PartSums& sums) noexcept;

 private:
  void load_queries(const AttentionSequence& s, std::int64_t kv_head, float* queries);
  void start(std::int64_t kv_head, bool is_first, const PartSums& sums) const noexcept;
  /// The rows of as many keys as the step has.
  void locate(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step);
  void locate_cached(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step) const noexcept;
  void turn(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step);

  const AttentionProblem& p_;
  DecodeShape shape_;
  const VisibleKeys& visible_;
  TurnedRows<float> query_rows_;
  std::optional<TurnedRows<float>> key_rows_;  // if keys turn on the way
  TensorRows<TensorView> out_rows_;
  float* turned_ = nullptr;  // the keys of both steps
  float *queries_ = nullptr, *scratch_ = nullptr;
  DecodeStep* steps_ = nullptr;
  PartSums whole_{}, part_{};
};

}  // namespace rotary
