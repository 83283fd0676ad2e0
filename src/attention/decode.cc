#include "attention/decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "attention/added_scores.h"
#include "attention/arena.h"
#include "attention/cached_sequences.h"
#include "attention/finite.h"
#include "attention/sequences.h"
#include "attention/turned_rows.h"
#include "attention/visible_keys.h"
#include "base/element.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "kernels/decode.h"

namespace rotary {
namespace {

constexpr std::int64_t part_keys = 1024;  // of the smallest part
constexpr std::int64_t most_parts = 8;

/// Numbers of a row, with the zeros at its end.
std::int64_t padded_width(std::int64_t width, DType dtype) noexcept {
  const std::int64_t piece = decode_row_bytes * 8 / bit_size(dtype);  // a power of two
  return (width + piece - 1) & -piece;
}

/// Whether rows along D are in one piece, and whole lines.
bool rows_fit(const ConstTensorView& x) noexcept {
  const bool in_one_piece = x.stride('D') == 1 || x.size('D') == 1;
  return in_one_piece && x.size('D') * bit_size(x.dtype()) % (decode_row_bytes * 8) == 0;
}

/// What becomes of some keys: of each head of some KV heads.
struct Sums {
  float *out, *max, *sum;

  static Sums take(Arena& arena, const DecodeShape& shape, std::int64_t num_kv_heads) noexcept {
    const std::int64_t heads = num_kv_heads * shape.heads;
    return {arena.take<float>(heads * shape.value_dim), arena.take<float>(heads), arena.take<float>(heads)};
  }

  Sums of(std::int64_t kv_head, const DecodeShape& shape) const noexcept {
    const std::int64_t head = kv_head * shape.heads;
    return {out + head * shape.value_dim, max + head, sum + head};
  }
};

/// Where part `i` of `count` ends; it begins where the one before it ends.
std::int64_t part_end(const KeyRange& keys, std::int64_t i, std::int64_t count) noexcept {
  const std::int64_t length = round_up((keys.end - keys.begin + count - 1) / count, decode_keys);
  return std::min(keys.end, keys.begin + (i + 1) * length);
}

std::int64_t num_parts(const KeyRange& keys) noexcept {
  return std::clamp<std::int64_t>((keys.end - keys.begin) / part_keys, 1, most_parts);
}

/// KV heads of one sequence that are done together.
struct HeadRange {
  std::int64_t first, count;
};

/// Keys of one head that are worth reading before those of the next one: the heads of a block of a cache, or of a token, lie
/// side by side, and memory is fastest in its own order.
std::int64_t keys_in_a_row(const AttentionProblem& p) noexcept {
  if (p.cached != nullptr) return round_up(p.cached->cache().options.block_size, decode_keys);
  return p.k.stride('H') < p.k.stride(p.token_axis) ? decode_keys : p.num_keys;
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

/// One thread, and its workspace, for up to `most_heads` KV heads at once.
class Decoder {
 public:
  Decoder(const AttentionProblem& problem, const DecodeShape& shape, std::int64_t most_heads, Arena& arena)
      : p_(problem),
        shape_(shape),
        visible_(problem),
        query_rows_(problem.q, problem.q_angles, arena, {.as_written = problem.cached != nullptr, .in_runs = false}),
        out_rows_(problem.out),
        turned_(arena.take<float>(problem.k_angles ? 2 * decode_keys * problem.head_dim : 0)),
        queries_(arena.take<float>(most_heads * shape_.heads * shape_.head_dim)),
        scratch_(arena.take<float>(decode_scratch)),
        steps_(arena.take<DecodeStep>(2)),
        whole_(Sums::take(arena, shape_, most_heads)),
        part_(Sums::take(arena, shape_, most_heads)) {
    if (problem.k_angles) key_rows_.emplace(problem.k, problem.k_angles, arena, TurnedRowsOptions{.in_runs = false});
  }

  /// All of it: the query of one sequence, for the heads of some KV heads.
  void attend(const AttentionSequence& s, const HeadRange& kv_heads) {
    const KeyRange keys = visible_.range(s, 0);
    const std::int64_t count = num_parts(keys);
    attend_part(s, keys, kv_heads, 0, count, whole_);
    for (std::int64_t i = 1; i < count; ++i) {
      attend_part(s, keys, kv_heads, i, count, part_);
      merge(part_, whole_, kv_heads.count);
    }
    write(s, kv_heads, whole_);
  }

  /// Part `i` of the `count` parts of the keys.
  void attend_part(const AttentionSequence& s, const KeyRange& keys, const HeadRange& kv_heads, std::int64_t i,
                   std::int64_t count, const Sums& sums) {
    for (std::int64_t n = 0; n < kv_heads.count; ++n) {
      load_queries(s, kv_heads.first + n, queries_ + n * shape_.heads * shape_.head_dim);
      start(kv_heads.first + n, i == 0, sums.of(n, shape_));
    }
    Steps steps({i == 0 ? keys.begin : part_end(keys, i - 1, count), part_end(keys, i, count)}, keys_in_a_row(p_),
                kv_heads.count);
    DecodeStep *now = steps_, *next = steps_ + 1;
    if (!steps.done()) locate(s, kv_heads.first + steps.head(), steps, *now);
    while (!steps.done()) {
      const std::int64_t n = steps.head();
      steps.advance();
      if (!steps.done()) locate(s, kv_heads.first + steps.head(), steps, *next);
      const Sums to = sums.of(n, shape_);
      decode_step(*now, steps.done() ? nullptr : next,
                  {shape_.dtype, shape_.heads, shape_.head_dim, shape_.value_dim,
                   queries_ + n * shape_.heads * shape_.head_dim, to.out, to.max, to.sum, scratch_});
      std::swap(now, next);
    }
  }

  /// Adds what other keys gave.
  void merge(const Sums& part, const Sums& whole, std::int64_t num_kv_heads) const noexcept {
    constexpr float nothing = -std::numeric_limits<float>::infinity();
    for (std::int64_t h = 0; h < num_kv_heads * shape_.heads; ++h) {
      if (part.max[h] == nothing && part.sum[h] == 0) continue;
      const float max = std::max(part.max[h], whole.max[h]);
      const float theirs = max == nothing ? 1 : std::exp(part.max[h] - max);
      const float ours = max == nothing ? 1 : std::exp(whole.max[h] - max);
      const float* const from = part.out + h * shape_.value_dim;
      float* const to = whole.out + h * shape_.value_dim;
      for (std::int64_t d = 0; d < shape_.value_dim; ++d) to[d] = to[d] * ours + from[d] * theirs;
      whole.sum[h] = whole.sum[h] * ours + part.sum[h] * theirs;
      whole.max[h] = max;
    }
  }

  /// Uses up the sums.
  void write(const AttentionSequence& s, const HeadRange& kv_heads, const Sums& sums) noexcept {
    const TensorView& lse = p_.options.lse;
    for (std::int64_t h = 0; h < kv_heads.count * shape_.heads; ++h) {
      const std::int64_t head = kv_heads.first * shape_.heads + h;
      float* const out = sums.out + h * shape_.value_dim;
      const bool sees_none = sums.sum[h] == 0;  // then even a NaN has no weight
      if (sees_none) std::fill_n(out, shape_.value_dim, 0.0f);
      else restore_channels(shape_.dtype, 1 / sums.sum[h], out, shape_.value_dim);
      out_rows_.store(out, s.row, s.first_query, head);
      if (!lse) continue;
      const double value = static_cast<double>(sums.max[h]) + std::log(static_cast<double>(sums.sum[h]));
      store_element(lse.dtype(), lse.data(),
                    s.row * lse.stride('B') + s.first_query * lse.stride(p_.token_axis) + head * lse.stride('H'), value);
    }
  }

 private:
  void load_queries(const AttentionSequence& s, std::int64_t kv_head, float* queries) {
    query_rows_.load_heads(s.row, s.first_query, kv_head * shape_.heads, shape_.heads, queries, shape_.head_dim);
    const auto scale = static_cast<float>(p_.scale_of(s.row, s.first_query));
    for (std::int64_t h = 0; h < shape_.heads; ++h, queries += shape_.head_dim) {
      std::fill(queries + p_.head_dim, queries + shape_.head_dim, 0.0f);
      arrange_channels(shape_.dtype, scale, queries, shape_.head_dim);
    }
  }

  /// Of no key; or of the sink, which is a key without a value.
  void start(std::int64_t kv_head, bool is_first, const Sums& sums) const noexcept {
    std::fill_n(sums.out, shape_.heads * shape_.value_dim, 0.0f);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const double sink = is_first ? p_.sink(kv_head * shape_.heads + h) : -std::numeric_limits<double>::infinity();
      sums.max[h] = added_number<float>(sink);
      sums.sum[h] = std::isfinite(sink) ? 1 : 0;
    }
  }

  void locate(const AttentionSequence& s, std::int64_t kv_head, const Steps& steps, DecodeStep& step) {
    const std::int64_t key = steps.key();
    step.count = steps.count();
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

  void turn(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step) {
    float* row = turned_ + (&step - steps_) * decode_keys * p_.head_dim;
    key_rows_->load_run(s.row, s.first_key + key, step.count, kv_head, row, p_.head_dim);
    for (std::int64_t i = 0; i < step.count; ++i, row += p_.head_dim)
      step.keys[i] = reinterpret_cast<const std::byte*>(row);
  }

  void locate_cached(const AttentionSequence& s, std::int64_t kv_head, std::int64_t key, DecodeStep& step) const noexcept {
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

  const AttentionProblem& p_;
  const DecodeShape& shape_;
  VisibleKeys visible_;
  TurnedRows<float> query_rows_;
  std::optional<TurnedRows<float>> key_rows_;  // if keys turn on the way
  TensorRows<TensorView> out_rows_;
  float* turned_;  // the keys of both steps
  float *queries_, *scratch_;
  DecodeStep* steps_;
  Sums whole_, part_;
};

constexpr std::int64_t most_bytes = 64 << 10;  // of a worker

std::int64_t decoder_bytes(const AttentionProblem& problem, const DecodeShape& shape, std::int64_t most_heads) {
  Arena count;
  const Decoder decoder(problem, shape, most_heads, count);
  return count.num_bytes();
}

/// As many KV heads as have room, at most `most`; one, where they do not lie side by side. `one` takes so many bytes.
std::int64_t heads_at_once(const AttentionProblem& p, const DecodeShape& shape, std::int64_t most, std::int64_t one) {
  if (most == 1 || keys_in_a_row(p) >= p.num_keys) return 1;
  const std::int64_t each = std::max<std::int64_t>(decoder_bytes(p, shape, 2) - one, 1);
  return std::clamp<std::int64_t>((most_bytes - one) / each + 1, 1, most);
}

}  // namespace

DecodeShape::DecodeShape(const AttentionProblem& p) noexcept
    : dtype(p.cached != nullptr ? p.cached->cache().options.dtype : p.k.dtype()),
      heads(p.heads_per_kv_head()),
      head_dim(padded_width(p.head_dim, dtype)),
      value_dim(padded_width(p.value_dim, dtype)) {}

bool DecodeTasks::suit(const AttentionProblem& p) noexcept {
  const AttentionOptions& o = p.options;
  if (p.num_kv_heads == 0 || p.heads_per_kv_head() > decode_most_heads || o.softcap != 0) return false;
  if (p.cached == nullptr && (p.k.dtype() != p.v.dtype() || !rows_fit(p.k) || !rows_fit(p.v))) return false;
  if (p.k_angles && p.k.dtype() != DType::f32) return false;  // turned keys are float32
  return !may_add_to_scores(p);
}

bool has_single_queries(const AttentionProblem& p) noexcept {
  if (!p.is_packed()) return p.num_queries <= 1;
  for (std::int64_t n = 0; n < p.num_sequences; ++n) {
    if (sequence_tokens(p, n).num_queries > 1) return false;
  }
  return true;
}

DecodeTasks::DecodeTasks(const AttentionProblem& problem) : p_(problem), shape_(problem) {
  constexpr std::int64_t groups_per_worker = 2;  // fewer, and some threads would wait for others
  const std::int64_t most_workers = concurrency(p_.options.executor);
  const std::int64_t fewest = most_workers > 1 ? groups_per_worker * most_workers : 1;
  const std::int64_t per_task = std::max<std::int64_t>(p_.num_sequences * p_.num_kv_heads / fewest, 1);
  const std::int64_t one = decoder_bytes(p_, shape_, 1);
  fit_ = one <= most_bytes;
  group_heads_ = heads_at_once(p_, shape_, std::min(per_task, p_.num_kv_heads), one);
  groups_per_sequence_ = (p_.num_kv_heads + group_heads_ - 1) / group_heads_;
  num_groups_ = p_.num_sequences * groups_per_sequence_;
  worker_bytes_ = group_heads_ == 1 ? one : decoder_bytes(p_, shape_, group_heads_);
  in_parts_ = most_workers > 1 && num_groups_ < fewest;
  num_workers_ = std::min(most_workers, in_parts_ ? num_groups_ * most_parts : num_groups_);
  if (!in_parts_) return;
  Arena count;
  Sums::take(count, shape_, group_heads_);
  sums_bytes_ = count.num_bytes();
}

std::int64_t DecodeTasks::num_bytes() const noexcept {
  return num_workers_ * worker_bytes_ + (in_parts_ ? num_groups_ * most_parts * sums_bytes_ : 0);
}

void DecodeTasks::run(std::byte& memory) const {
  if (in_parts_) run_parts(&memory);
  else run_whole(&memory);
  ProgressCount(p_.options.progress, 1).finish_one();
}

/// body(decoder, task, sequence, heads) for the tasks that belong to a group of heads: `tasks_per_group` of each.
template <class Body>
void DecodeTasks::for_tasks(std::byte* memory, std::int64_t tasks_per_group, const Body& body) const {
  parallel_for(p_.options.executor, num_workers_, [&](std::int64_t worker) {
    Arena own(memory[worker * worker_bytes_]);
    Decoder decoder(p_, shape_, group_heads_, own);
    const std::int64_t num_tasks = num_groups_ * tasks_per_group;
    AttentionSequence s{};
    s.number = -1;  // none yet
    for (std::int64_t i = worker; i < num_tasks; i += num_workers_) {
      const std::int64_t group = i / tasks_per_group, first = group % groups_per_sequence_ * group_heads_;
      const std::int64_t number = group / groups_per_sequence_;
      if (number != s.number) s = sequence(p_, number);
      if (s.num_queries > 0) body(decoder, i, s, HeadRange{first, std::min(group_heads_, p_.num_kv_heads - first)});
    }
  });
}

void DecodeTasks::run_whole(std::byte* memory) const {
  for_tasks(memory, 1, [](Decoder& decoder, std::int64_t, const AttentionSequence& s, const HeadRange& heads) {
    decoder.attend(s, heads);
  });
}

void DecodeTasks::run_parts(std::byte* memory) const {
  const VisibleKeys visible(p_);
  const auto sums = [&](std::int64_t task) {
    Arena own(memory[num_workers_ * worker_bytes_ + task * sums_bytes_]);
    return Sums::take(own, shape_, group_heads_);
  };
  for_tasks(memory, most_parts,
            [&](Decoder& decoder, std::int64_t task, const AttentionSequence& s, const HeadRange& heads) {
              const KeyRange keys = visible.range(s, 0);
              const std::int64_t i = task % most_parts, count = num_parts(keys);
              if (i < count) decoder.attend_part(s, keys, heads, i, count, sums(task));
            });
  for_tasks(memory, 1, [&](Decoder& decoder, std::int64_t group, const AttentionSequence& s, const HeadRange& heads) {
    const Sums whole = sums(group * most_parts);
    for (std::int64_t i = 1; i < num_parts(visible.range(s, 0)); ++i) {
      decoder.merge(sums(group * most_parts + i), whole, heads.count);
    }
    decoder.write(s, heads, whole);
  });
}

}  // namespace rotary
