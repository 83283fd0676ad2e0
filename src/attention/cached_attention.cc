#include <algorithm>
#include <vector>

#include "attention/attend.h"
#include "attention/cached_sequences.h"
#include "attention/problem.h"
#include "base/fail.h"
#include "rotary/kv_cache.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "attention";

void check_options(const AttentionOptions& o) {
  const struct {
    bool given;
    const char* name;
  } refused[] = {
      {o.rotation != nullptr, "rotation"},
      {o.precision != Precision::exact, "precision"},
      {o.table != nullptr, "table"},
      {o.k_positions.offset != 0 || o.k_positions.offsets || o.k_positions.position_ids || o.k_positions.cu_seqlens,
       "k_positions"},
      {static_cast<bool>(o.k_cu_seqlens), "k_cu_seqlens"},
      {o.q_document_ids || o.k_document_ids, "document_ids"},
      {static_cast<bool>(o.key_padding_mask), "key_padding_mask"}};
  for (const auto& [given, name] : refused) {
    if (given) fail_argument(operation, name, " must not be given with a cache, which says itself what its keys are");
  }
}

/// What a call without a cache would have been given: shapes, lengths and positions.
class CachedCall {
 public:
  CachedCall(const ConstTensorView& q, const CachedSequences& sequences, const AttentionOptions& options)
      : q_(q), sequences_(sequences), is_packed_(options.cu_seqlens), options_(options) {
    check_count();
    set_keys();
    const KvCacheOptions& cache = sequences.cache().options;
    options_.rotation = cache.rotation;
    if (cache.rotation != nullptr) options_.precision = cache.precision;
    const bool counted = options.chunk_size != 0 || options.bias != nullptr || options.bias_function;
    if (counted) set_key_positions();
    const Positions& given = options.q_positions;
    const bool says_where = given.offset != 0 || given.offsets || given.position_ids || given.cu_seqlens;
    if ((counted || cache.rotation != nullptr) && !says_where) set_query_positions();
  }

  const ConstTensorView& keys() const noexcept { return keys_; }
  const ConstTensorView& values() const noexcept { return values_; }
  const AttentionOptions& options() const noexcept { return options_; }

 private:
  std::int64_t num_queries(std::int64_t n) const noexcept {
    if (!is_packed_) return q_.size('S');
    const ConstTensorView& ends = options_.cu_seqlens;
    return whole_number(ends, (n + 1) * ends.stride('N')) - whole_number(ends, n * ends.stride('N'));
  }

  void check_count() const {
    if (is_packed_) check_cu_seqlens(operation, "cu_seqlens", options_.cu_seqlens, tokens_of(operation, q_));
    const std::int64_t count = is_packed_ ? options_.cu_seqlens.size('N') - 1 : q_.size('B');
    if (count == sequences_.size()) return;
    fail_argument(operation, "sequences must name one of the cache for each of q, got ", sequences_.size(), " for ", count);
  }

  /// Views of the right shape; what they point to is not read.
  void set_keys() {
    const KvCacheOptions& cache = sequences_.cache().options;
    ends_.assign(1, 0);
    std::int64_t longest = 0;
    for (std::int64_t n = 0; n < sequences_.size(); ++n) {
      longest = std::max(longest, sequences_.at(n).num_tokens);
      ends_.push_back(ends_.back() + sequences_.at(n).num_tokens);
    }
    length_ = is_packed_ ? ends_.back() : longest;
    static constexpr float anything = 0;
    const auto view = [&](std::int64_t width) {
      const std::int64_t heads = cache.num_kv_heads;
      if (is_packed_) return ConstTensorView(&anything, DType::f32, "THD", {length_, heads, width}, {0, 0, 0});
      return ConstTensorView(&anything, DType::f32, "BSHD", {sequences_.size(), length_, heads, width}, {0, 0, 0, 0});
    };
    keys_ = view(cache.head_dim);
    values_ = view(cache.value_dim);
    if (is_packed_) options_.k_cu_seqlens = ConstTensorView(ends_.data(), "N", {sequences_.size() + 1});
  }

  void set_key_positions() {
    const std::int64_t axes = sequences_.cache().blocks.num_axes(), rows = is_packed_ ? 1 : sequences_.size();
    key_positions_.assign(static_cast<std::size_t>(rows * length_ * axes), 0);
    for (std::int64_t n = 0; n < sequences_.size(); ++n) {
      const std::int64_t first = is_packed_ ? ends_[static_cast<std::size_t>(n)] : n * length_;
      for (std::int64_t i = 0; i < sequences_.at(n).num_tokens; ++i) {
        std::copy_n(sequences_.position(n, i), axes, key_positions_.data() + (first + i) * axes);
      }
    }
    options_.k_positions.position_ids = positions(key_positions_, length_, axes);
  }

  void set_query_positions() {
    const std::int64_t axes = sequences_.cache().blocks.num_axes();
    for (std::int64_t n = 0; n < sequences_.size(); ++n) {
      const std::int64_t count = num_queries(n), num_tokens = sequences_.at(n).num_tokens;
      if (count > num_tokens) {
        fail_argument(operation,
                      "a cached sequence must hold the tokens of its queries, or q_positions say where they stand, ",
                      "got ", num_tokens, " tokens and ", count, " queries");
      }
      for (std::int64_t i = num_tokens - count; i < num_tokens; ++i) {
        const double* const position = sequences_.position(n, i);
        query_positions_.insert(query_positions_.end(), position, position + axes);
      }
    }
    options_.q_positions.position_ids = positions(query_positions_, is_packed_ ? q_.size('T') : q_.size('S'), axes);
  }

  ConstTensorView positions(const std::vector<double>& numbers, std::int64_t length, std::int64_t axes) const {
    if (is_packed_) return {numbers.data(), DType::f64, "TA", {length, axes}};
    return {numbers.data(), DType::f64, "BSA", {sequences_.size(), length, axes}};
  }

  const ConstTensorView& q_;
  const CachedSequences& sequences_;
  bool is_packed_;
  AttentionOptions options_;
  ConstTensorView keys_, values_;
  std::int64_t length_ = 0;
  std::vector<std::int64_t> ends_;
  std::vector<double> key_positions_, query_positions_;
};

/// body(problem), of arguments that fit.
template <class Body>
void with_call(const ConstTensorView& q, const KvCache& cache, const std::vector<std::int64_t>& sequences,
               const TensorView& out, const AttentionOptions& options, const Body& body) {
  KvState& state = KvCacheAccess::state(cache);
  for (const std::int64_t n : sequences) state.sequence(operation, n);
  check_options(options);
  const CachedSequences cached(state, sequences);
  const CachedCall call(q, cached, options);
  body(check_attention(q, call.keys(), call.values(), out, call.options(), &cached));
}

}  // namespace

void attention(const ConstTensorView& q, const KvCache& cache, const std::vector<std::int64_t>& sequences,
               const TensorView& out, const AttentionOptions& options) {
  with_call(q, cache, sequences, out, options, [](const AttentionProblem& problem) { attend(problem); });
}

std::int64_t attention_workspace_bytes(const ConstTensorView& q, const KvCache& cache,
                                       const std::vector<std::int64_t>& sequences, const TensorView& out,
                                       const AttentionOptions& options) {
  std::int64_t num_bytes = 0;
  with_call(q, cache, sequences, out, options,
            [&](const AttentionProblem& problem) { num_bytes = attend_workspace_bytes(problem); });
  return num_bytes;
}

}  // namespace rotary
