#include "attention/decode.h"

#include <algorithm>

#include "attention/added_scores.h"
#include "attention/arena.h"
#include "attention/sequences.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "kernels/decode.h"

namespace rotary {
namespace {

/// Whether rows along D are in one piece, and whole lines.
bool rows_fit(const ConstTensorView& x) noexcept {
  const bool in_one_piece = x.stride('D') == 1 || x.size('D') == 1;
  return in_one_piece && x.size('D') * bit_size(x.dtype()) % (decode_row_bytes * 8) == 0;
}

constexpr std::int64_t most_bytes = 64 << 10;  // of a worker

std::int64_t decoder_bytes(Decoder& decoder, std::int64_t most_heads) {
  Arena count;
  decoder.lay_out(count, most_heads);
  return count.num_bytes();
}

/// As many KV heads as have room, at most `most`; one, where they do not lie side by side. `one` takes so many bytes.
std::int64_t heads_at_once(const AttentionProblem& p, Decoder& decoder, std::int64_t most, std::int64_t one) {
  if (most == 1 || decoder.shape().keys_in_a_row >= p.num_keys) return 1;
  const std::int64_t each = std::max<std::int64_t>(decoder_bytes(decoder, 2) - one, 1);
  return std::clamp<std::int64_t>((most_bytes - one) / each + 1, 1, most);
}

}  // namespace

bool DecodeTasks::suit(const AttentionProblem& p) noexcept {
  const AttentionOptions& o = p.options;
  if (p.num_kv_heads == 0 || p.heads_per_kv_head > decode_most_heads || o.softcap != 0) return false;
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

DecodeTasks::DecodeTasks(const AttentionProblem& problem) : p_(problem), visible_(problem), decoder_(problem, visible_) {
  constexpr std::int64_t groups_per_worker = 2;  // fewer, and some threads would wait for others
  const std::int64_t most_workers = concurrency(p_.options.executor);
  const std::int64_t fewest = most_workers > 1 ? groups_per_worker * most_workers : 1;
  const std::int64_t heads = p_.num_sequences * p_.num_kv_heads;
  const std::int64_t per_task = most_workers > 1 ? std::max<std::int64_t>(heads / fewest, 1) : heads;
  const std::int64_t one = decoder_bytes(decoder_, 1);
  fit_ = one <= most_bytes;
  group_heads_ = heads_at_once(p_, decoder_, std::min(per_task, p_.num_kv_heads), one);
  groups_per_sequence_ = (p_.num_kv_heads + group_heads_ - 1) / group_heads_;
  num_groups_ = p_.num_sequences * groups_per_sequence_;
  worker_bytes_ = group_heads_ == 1 ? one : decoder_bytes(decoder_, group_heads_);
  in_parts_ = most_workers > 1 && num_groups_ < fewest;
  num_workers_ = std::min(most_workers, in_parts_ ? num_groups_ * most_parts : num_groups_);
  if (!in_parts_) return;
  Arena count;
  PartSums::take(count, decoder_.shape(), group_heads_);
  sums_bytes_ = count.num_bytes();
}

std::int64_t DecodeTasks::num_bytes() const noexcept {
  return num_workers_ * worker_bytes_ + (in_parts_ ? num_groups_ * most_parts * sums_bytes_ : 0);
}

void DecodeTasks::run(std::byte& memory) {
  if (in_parts_) run_parts(&memory);
  else run_whole(&memory);
  ProgressCount(p_.options.progress, 1).finish_one();
}

/// body(decoder, task, sequence, heads) for the tasks that belong to a group of heads: `tasks_per_group` of each.
template <std::int64_t tasks_per_group, class Body>
void DecodeTasks::for_tasks(std::byte* memory, const Body& body) {
  const auto do_tasks = [&](Decoder& decoder, std::int64_t worker) {
    Arena own(memory[worker * worker_bytes_]);
    decoder.lay_out(own, group_heads_);
    const std::int64_t tasks_per_sequence = groups_per_sequence_ * tasks_per_group;
    std::int64_t i = worker;
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) {
      const std::int64_t begin = n * tasks_per_sequence, end = begin + tasks_per_sequence;
      if (i >= end) continue;
      const AttentionSequence s = visible_.sequence(n);
      for (; i < end; i += num_workers_) {
        const std::int64_t first = (i - begin) / tasks_per_group * group_heads_;
        if (s.num_queries > 0) body(decoder, i, s, HeadRange{first, std::min(group_heads_, p_.num_kv_heads - first)});
      }
    }
  };
  if (num_workers_ == 1) return do_tasks(decoder_, 0);
  parallel_for(p_.options.executor, num_workers_, [&](std::int64_t worker) {
    Decoder own = decoder_;
    do_tasks(own, worker);
  });
}

void DecodeTasks::run_whole(std::byte* memory) {
  for_tasks<1>(memory, [](Decoder& decoder, std::int64_t, const AttentionSequence& s, const HeadRange& heads) {
    decoder.attend(s, heads);
  });
}

void DecodeTasks::run_parts(std::byte* memory) {
  const auto sums = [&](std::int64_t task) {
    Arena own(memory[num_workers_ * worker_bytes_ + task * sums_bytes_]);
    return PartSums::take(own, decoder_.shape(), group_heads_);
  };
  for_tasks<most_parts>(memory,
                        [&](Decoder& decoder, std::int64_t task, const AttentionSequence& s, const HeadRange& heads) {
                          const KeyRange keys = visible_.range(s, 0);
                          const std::int64_t i = task % most_parts, count = num_parts(keys);
                          if (i < count) decoder.attend_part(s, keys, heads, i, count, sums(task));
                        });
  for_tasks<1>(memory, [&](Decoder& decoder, std::int64_t group, const AttentionSequence& s, const HeadRange& heads) {
    const PartSums whole = sums(group * most_parts);
    for (std::int64_t i = 1; i < num_parts(visible_.range(s, 0)); ++i) {
      decoder.merge(sums(group * most_parts + i), whole, heads.count);
    }
    decoder.write(s, heads, whole);
  });
}

}  // namespace rotary
