#include "attention/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/cached_sequences.h"
#include "attention/finite.h"
#include "base/element.h"
#include "base/round_up.h"
#include "kernels/attention.h"

namespace rotary {
namespace {

constexpr std::int64_t part_keys = 1024;  // of the smallest part

/// Numbers of a row, with the zeros at its end.
std::int64_t padded_width(std::int64_t width, DType dtype) noexcept {
  const std::int64_t piece = decode_row_bytes * 8 >> std::countr_zero(static_cast<std::uint64_t>(bit_size(dtype)));
  return (width + piece - 1) & -piece;
}

/// The heads of a block of a cache, or of a token, lie side by side, and memory is fastest in its own order; but what belongs to a
/// head is to be loaded seldom, so that of small blocks several follow each other.
std::int64_t keys_in_a_row(const AttentionProblem& p) noexcept {
  constexpr std::int64_t fewest_cached = 4 * decode_keys;
  if (p.cached != nullptr) return round_up(p.cached->cache().options.block_size, fewest_cached);
  return p.k.stride('H') < p.k.stride(p.token_axis) ? decode_keys : p.num_keys;
}

/// Where part `i` of `count` ends; it begins where the one before it ends.
std::int64_t part_end(const KeyRange& keys, std::int64_t i, std::int64_t count) noexcept {
  if (i + 1 == count) return keys.end;
  const std::int64_t length = round_up((keys.end - keys.begin + count - 1) / count, decode_keys);
  return keys.begin + (i + 1) * length;
}

/// The steps through the keys of some heads: all heads after each run of keys.
class Steps {
 public:
  Steps(const KeyRange& keys, std::int64_t keys_in_a_row, std::int64_t num_heads) noexcept
      : keys_(keys),
        in_a_row_(std::max(keys_in_a_row, decode_keys)),
        num_heads_(num_heads),
        run_(keys.begin),
        key_(keys.begin) {}

  bool done() const noexcept { return run_ >= keys_.end; }
  std::int64_t key() const noexcept { return key_; }
  std::int64_t count() const noexcept { return std::min(decode_keys, keys_.end - key_); }
  std::int64_t head() const noexcept { return head_; }

  void advance() noexcept {
    key_ += decode_keys;
    if (key_ < std::min(run_ + in_a_row_, keys_.end)) return;
    if (++head_ == num_heads_) {
      head_ = 0;
      run_ += in_a_row_;
    }
    key_ = run_;
  }

 private:
  KeyRange keys_;
  std::int64_t in_a_row_, num_heads_, run_, key_, head_ = 0;
};

}  // namespace

DecodeShape::DecodeShape(const AttentionProblem& p) noexcept
    : dtype(p.cached != nullptr ? p.cached->cache().options.dtype : p.k.dtype()),
      heads(p.heads_per_kv_head),
      head_dim(padded_width(p.head_dim, dtype)),
      value_dim(padded_width(p.value_dim, dtype)),
      keys_are_lanes(p.cached != nullptr && p.cached->cache().blocks.keys_are_lanes()),
      keys_in_a_row(rotary::keys_in_a_row(p)) {}

std::int64_t num_parts(const KeyRange& keys) noexcept {
  return std::clamp<std::int64_t>((keys.end - keys.begin) / part_keys, 1, most_parts);
}

PartSums PartSums::take(Arena& arena, const DecodeShape& shape, std::int64_t num_kv_heads) noexcept {
  const std::int64_t heads = num_kv_heads * shape.heads;
  return {arena.take<float>(heads * shape.value_dim), arena.take<float>(heads), arena.take<float>(heads)};
}

PartSums PartSums::of(std::int64_t kv_head, const DecodeShape& shape) const noexcept {
  const std::int64_t head = kv_head * shape.heads;
  return {out + head * shape.value_dim, reference + head, sum + head};
}

Decoder::Decoder(const AttentionProblem& problem, const VisibleKeys& visible)
    : p_(problem),
      shape_(problem),
      visible_(visible),
      query_rows_(problem.q, problem.q_angles, {.as_written = problem.cached != nullptr, .in_runs = false}),
      out_rows_(problem.out) {
  if (problem.k_angles) key_rows_.emplace(problem.k, problem.k_angles, TurnedRowsOptions{.in_runs = false});
}

void Decoder::lay_out(Arena& arena, std::int64_t most_heads) {
  query_rows_.lay_out(arena);
  if (key_rows_) {
    key_rows_->lay_out(arena);
    turned_ = arena.take<float>(2 * decode_keys * p_.head_dim);
  }
  queries_ = arena.take<float>(most_heads * shape_.heads * shape_.head_dim);
  scratch_ = arena.take<float>(decode_scratch);
  steps_ = arena.take<DecodeStep>(2);
  whole_ = PartSums::take(arena, shape_, most_heads);
  part_ = PartSums::take(arena, shape_, most_heads);
}

void Decoder::attend(const AttentionSequence& s, const HeadRange& kv_heads) {
  const KeyRange keys = visible_.range(s, 0);
  const std::int64_t count = num_parts(keys);
  attend_part(s, keys, kv_heads, 0, count, whole_);
  for (std::int64_t i = 1; i < count; ++i) {
    attend_part(s, keys, kv_heads, i, count, part_);
    merge(part_, whole_, kv_heads.count);
  }
  write(s, kv_heads, whole_);
}

void Decoder::attend_part(const AttentionSequence& s, const KeyRange& keys, const HeadRange& kv_heads, std::int64_t i,
                          std::int64_t count, const PartSums& sums) {
  for (std::int64_t n = 0; n < kv_heads.count; ++n) {
    load_queries(s, kv_heads.first + n, queries_ + n * shape_.heads * shape_.head_dim);
    start(kv_heads.first + n, i == 0, sums.of(n, shape_));
  }
  const std::int64_t begin = i == 0 ? keys.begin : part_end(keys, i - 1, count);
  const std::int64_t first = shape_.keys_are_lanes ? begin / key_lanes * key_lanes : begin;
  Steps steps({first, part_end(keys, i, count)}, shape_.keys_in_a_row, kv_heads.count);
  const auto locate_next = [&](DecodeStep& step) {
    if (steps.done()) return;
    step.count = steps.count();
    step.hidden = std::max<std::int64_t>(begin - steps.key(), 0);
    locate(s, kv_heads.first + steps.head(), steps.key(), step);
  };
  DecodeStep *now = steps_, *next = steps_ + 1;
  locate_next(*now);
  while (!steps.done()) {
    const std::int64_t n = steps.head();
    steps.advance();
    locate_next(*next);
    const PartSums to = sums.of(n, shape_);
    decode_step(*now, steps.done() ? nullptr : next,
                {shape_.dtype, shape_.keys_are_lanes, shape_.heads, shape_.head_dim, shape_.value_dim,
                 queries_ + n * shape_.heads * shape_.head_dim, to.out, to.reference, to.sum, scratch_});
    std::swap(now, next);
  }
}

void Decoder::merge(const PartSums& part, const PartSums& whole, std::int64_t num_kv_heads) const noexcept {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t h = 0; h < num_kv_heads * shape_.heads; ++h) {
    if (part.reference[h] == nothing && part.sum[h] == 0) continue;
    const float reference = std::max(part.reference[h], whole.reference[h]);
    const float theirs = reference == nothing ? 1 : std::exp(part.reference[h] - reference);
    const float ours = reference == nothing ? 1 : std::exp(whole.reference[h] - reference);
    const float* const from = part.out + h * shape_.value_dim;
    float* const to = whole.out + h * shape_.value_dim;
    for (std::int64_t d = 0; d < shape_.value_dim; ++d) to[d] = to[d] * ours + from[d] * theirs;
    whole.sum[h] = whole.sum[h] * ours + part.sum[h] * theirs;
    whole.reference[h] = reference;
  }
}

void Decoder::write(const AttentionSequence& s, const HeadRange& kv_heads, const PartSums& sums) noexcept {
  const TensorView& lse = p_.options.lse;
  for (std::int64_t h = 0; h < kv_heads.count * shape_.heads; ++h) {
    const std::int64_t head = kv_heads.first * shape_.heads + h;
    float* const out = sums.out + h * shape_.value_dim;
    const bool sees_none = sums.sum[h] == 0;  // then even a NaN has no weight
    if (sees_none) std::fill_n(out, shape_.value_dim, 0.0f);
    else restore_channels(shape_.dtype, 1 / sums.sum[h], out, shape_.value_dim);
    out_rows_.store(out, s.row, s.first_query, head);
    if (!lse) continue;
    const double sum = static_cast<double>(sums.sum[h]) / weight_of_reference;
    const double value = static_cast<double>(sums.reference[h]) + std::log(sum);
    store_element(lse.dtype(), lse.data(),
                  s.row * lse.stride('B') + s.first_query * lse.stride(p_.token_axis) + head * lse.stride('H'), value);
  }
}

void Decoder::load_queries(const AttentionSequence& s, std::int64_t kv_head, float* queries) {
  query_rows_.load_heads(s.row, s.first_query, kv_head * shape_.heads, shape_.heads, queries, shape_.head_dim);
  for (std::int64_t h = 0; h < shape_.heads && p_.head_dim < shape_.head_dim; ++h) {
    std::fill(queries + h * shape_.head_dim + p_.head_dim, queries + (h + 1) * shape_.head_dim, 0.0f);
  }
  const auto scale = static_cast<float>(p_.scale_of(s.row, s.first_query));
  arrange_channels(shape_.keys_are_lanes ? DType::f32 : shape_.dtype, scale, queries, shape_.heads * shape_.head_dim);
}

/// Of no key; or of the sink, which is a key without a value.
void Decoder::start(std::int64_t kv_head, bool is_first, const PartSums& sums) const noexcept {
  std::fill_n(sums.out, shape_.heads * shape_.value_dim, 0.0f);
  std::fill_n(sums.reference, shape_.heads, -std::numeric_limits<float>::infinity());
  std::fill_n(sums.sum, shape_.heads, 0.0f);
  if (!is_first || !p_.options.sinks) return;
  for (std::int64_t h = 0; h < shape_.heads; ++h) {
    const double sink = p_.sink(kv_head * shape_.heads + h);
    sums.reference[h] = added_number<float>(sink);
    sums.sum[h] = std::isfinite(sink) ? static_cast<float>(weight_of_reference) : 0;
  }
}

void Decoder::locate(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step) {
  if (p_.cached != nullptr) return locate_cached(s, kv_head, key, step);
  const auto from = [&](const ConstTensorView& x, const std::byte** rows) {
    const std::int64_t size = bit_size(x.dtype()) / 8, token_step = x.stride(p_.token_axis) * size;
    const std::byte* row = static_cast<const std::byte*>(x.data()) +
                           (s.row * x.stride('B') + kv_head * x.stride('H')) * size + (s.first_key + key) * token_step;
    for (std::int64_t i = 0; i < step.count; ++i, row += token_step) rows[i] = row;
  };
  if (key_rows_) turn(s, kv_head, key, step);
  else from(p_.k, step.keys);
  from(p_.v, step.values);
}

void Decoder::turn(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step) {
  float* row = turned_ + (&step - steps_) * decode_keys * p_.head_dim;
  key_rows_->load_run(s.row, s.first_key + key, step.count, kv_head, row, p_.head_dim);
  for (std::int64_t i = 0; i < step.count; ++i, row += p_.head_dim) step.keys[i] = reinterpret_cast<const std::byte*>(row);
}

void Decoder::locate_cached(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key,
                            DecodeStep& step) const noexcept {
  const KvBlocks& blocks = p_.cached->cache().blocks;
  const std::int64_t block_size = p_.cached->cache().options.block_size;
  const bool has_scales = shape_.dtype == DType::i8;
  const auto& table = p_.cached->at(s.number).blocks;
  for_runs(table, block_size, key, key + step.count, decode_keys, [&](const KvRun& run) {
    const std::int64_t first = run.first - key;
    const std::byte* const k = blocks.key(run.block, kv_head, run.slot);
    const std::byte* const v = blocks.value(run.block, kv_head, run.slot);
    for (std::int64_t i = 0; i < run.count; ++i) {
      step.keys[first + i] = k + i * blocks.key_bytes();
      step.values[first + i] = v + i * blocks.value_bytes();
    }
    if (!has_scales) return;
    std::copy_n(blocks.key_scale(run.block, kv_head, run.slot), run.count, step.key_scales + first);
    std::copy_n(blocks.value_scale(run.block, kv_head, run.slot), run.count, step.value_scales + first);
  });
  if (!has_scales) return;  // what lies behind the last key is multiplied by 0
  std::fill(step.key_scales + step.count, step.key_scales + decode_keys, 1.0f);
  std::fill(step.value_scales + step.count, step.value_scales + decode_keys, 1.0f);
}

}  // namespace rotary
