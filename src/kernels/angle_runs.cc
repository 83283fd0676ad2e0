#include "kernels/angle_runs.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/angle_runs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cos_sin-inl.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace angles;

using Lanes = hn::Mask<Doubles>;

constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(Doubles()));

/// A vector of pairs, from pair `first` on, of which there are `count`.
struct Column {
  std::int64_t first, count;
  Vec turns_hi, turns_lo;
};

template <class Body>
HWY_INLINE void for_columns(const PairAngles& pairs, const Body& body) {
  const Doubles d;
  std::int64_t j = 0;
  for (; j + lanes <= pairs.num_pairs; j += lanes) {
    body(Column{j, lanes, hn::LoadU(d, pairs.turns_hi + j), hn::LoadU(d, pairs.turns_lo + j)});
  }
  if (j == pairs.num_pairs) return;
  HWY_ALIGN double hi[lanes] = {}, lo[lanes] = {};
  for (std::int64_t i = 0; j + i < pairs.num_pairs; ++i) {
    hi[i] = pairs.turns_hi[j + i];
    lo[i] = pairs.turns_lo[j + i];
  }
  body(Column{j, pairs.num_pairs - j, hn::Load(d, hi), hn::Load(d, lo)});
}

/// Whether x is so far from the middle between two floats that a number within 2^-36.6 of it, relatively, rounds to the same
/// one: not within 2^16 units of double. Half a float is 2^28 of them, so the bits below that and from 2^17 on are all 0.
HWY_INLINE Lanes rounds_surely(Vec x) {
  const Doubles d;
  const auto from_middle = hn::Add(hn::BitCast(Bits(), x), hn::Set(Bits(), (1u << 28) + (1u << 16)));
  const auto tested = hn::Set(Bits(), (1u << 29) - (1u << 17));
#if HWY_TARGET == HWY_AVX3
  return hn::RebindMask(d, hn::TestBit(from_middle, tested));  // here: any of these bits
#else
  return hn::RebindMask(d, hn::Ne(hn::And(from_middle, tested), hn::Zero(Bits())));
#endif
}

/// Whether all angles of a run stay between two quarters of a turn, so that neither cos nor sin loses its leading digits: at
/// least 2^-13 turn away, or one step where that is less.
HWY_INLINE bool stays_in_a_quarter(const Column& pairs, Vec first_rest) {
  const Doubles d;
  const Vec last_rest = hn::Add(first_rest, hn::Mul(pairs.turns_hi, hn::Set(d, angle_run - 1)));
  const Vec turns = hn::Abs(pairs.turns_hi), first = hn::Abs(first_rest), last = hn::Abs(last_rest);
  const Vec margin = hn::Set(d, 0x1p-13);
  const Vec least = hn::Min(hn::Max(turns, hn::Set(d, 0x1p-80)), margin);  // floats have no denormals above that
  const auto is_clear = hn::Ge(hn::Min(first, last), hn::IfThenElseZero(hn::Gt(turns, hn::Zero(d)), least));
  const auto is_below = hn::Le(hn::Max(first, last), hn::Sub(hn::Set(d, 0.25), margin));
  const auto is_on_one_side = hn::Ge(hn::Mul(first_rest, last_rest), hn::Zero(d));
  return hn::AllTrue(d, hn::And(hn::And(is_clear, is_below), is_on_one_side));
}

/// What a run of one column reads and writes.
struct ColumnRun {
  Column pairs;
  Vec amplitude;
  double first;
  std::int64_t count;
  CosSin start;
  const double* steps;  // cos, and sin sin_step further on
  std::int64_t sin_step;
  float *cos, *sin;
  std::int64_t step;
};

template <bool stays>
HWY_INLINE void turn_on(const ColumnRun& run) {
  const Doubles d;
  const Vec least = hn::Mul(hn::Mul(run.amplitude, run.amplitude), hn::Set(d, 0x1p-10));
  const double* steps = run.steps;
  for (std::int64_t i = 0; i < run.count; ++i, steps += 2 * run.sin_step) {
    const Vec cos = hn::LoadU(d, steps), sin = hn::LoadU(d, steps + run.sin_step);
    CosSin x{hn::MulSub(run.start.cos, cos, hn::Mul(run.start.sin, sin)),
             hn::MulAdd(run.start.sin, cos, hn::Mul(run.start.cos, sin))};
    auto is_sure = hn::And(rounds_surely(x.cos), rounds_surely(x.sin));
    if constexpr (!stays) is_sure = hn::And(is_sure, hn::Ge(hn::Abs(hn::Mul(x.cos, x.sin)), least));
    if (HWY_UNLIKELY(!hn::AllTrue(d, is_sure))) {
      const Vec position = hn::Set(d, run.first + static_cast<double>(i));
      x = exact_cos_sin(position, run.pairs.turns_hi, run.pairs.turns_lo, run.amplitude);
    }
    store(x, run.cos + i * run.step, run.sin + i * run.step);
  }
}

}  // namespace

void make_angle_steps_kernel(const PairAngles& pairs, double* steps) noexcept {
  const Doubles d;
  const std::int64_t sin_step = angle_steps_size(pairs.num_pairs) / (2 * angle_run);
  for_columns(pairs, [&](const Column& column) HWY_ATTR {
    for (std::int64_t i = 0; i < angle_run; ++i) {
      const Vec position = hn::Set(d, static_cast<double>(i));
      const CosSin x = precise_cos_sin(reduce(position, column.turns_hi, column.turns_lo), hn::Set(d, 1));
      double* const to = steps + 2 * i * sin_step + column.first;
      hn::StoreU(x.cos, d, to);
      hn::StoreU(x.sin, d, to + sin_step);
    }
  });
}

void exact_angle_run_kernel(const PairAngles& pairs, const double* steps, double first, std::int64_t count, float* cos,
                            float* sin, std::int64_t step) noexcept {
  const Doubles d;
  const Vec amplitude = hn::Set(d, pairs.amplitude);
  const std::int64_t sin_step = angle_steps_size(pairs.num_pairs) / (2 * angle_run);
  for_columns(pairs, [&](const Column& column) HWY_ATTR {
    const Reduced angle = reduce(hn::Set(d, first), column.turns_hi, column.turns_lo);
    HWY_ALIGN float cos_tail[lanes * angle_run], sin_tail[lanes * angle_run];
    const bool is_whole = column.count == lanes;
    const ColumnRun run{column,
                        amplitude,
                        first,
                        count,
                        precise_cos_sin(angle, amplitude),
                        steps + column.first,
                        sin_step,
                        is_whole ? cos + column.first : cos_tail,
                        is_whole ? sin + column.first : sin_tail,
                        is_whole ? step : lanes};
    if (stays_in_a_quarter(column, angle.rest)) turn_on<true>(run);
    else turn_on<false>(run);
    if (is_whole) return;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < column.count; ++j) {
        cos[i * step + column.first + j] = cos_tail[i * lanes + j];
        sin[i * step + column.first + j] = sin_tail[i * lanes + j];
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

void make_angle_steps(const PairAngles& pairs, double* steps) noexcept {
  ROTARY_KERNEL(make_angle_steps_kernel)(pairs, steps);
}

void exact_angle_run(const PairAngles& pairs, const double* steps, double first, std::int64_t count, float* cos, float* sin,
                     std::int64_t step) noexcept {
  ROTARY_KERNEL(exact_angle_run_kernel)(pairs, steps, first, count, cos, sin, step);
}

}  // namespace rotary
#endif
