#include "kernels/angles.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/angles.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cos_sin-inl.h"
#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace angles;

/// position_of(j): the positions of the pairs from j on.
template <class PositionOf>
HWY_INLINE void row(const PairAngles& pairs, const PositionOf& position_of, float* cos, float* sin) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Vec amplitude = hn::Set(d, pairs.amplitude);
  std::int64_t j = 0;
  for (; j + lanes <= pairs.num_pairs; j += lanes) {
    const Vec turns_hi = hn::LoadU(d, pairs.turns_hi + j), turns_lo = hn::LoadU(d, pairs.turns_lo + j);
    store(exact_cos_sin(position_of(j, lanes), turns_hi, turns_lo, amplitude), cos + j, sin + j);
  }
  const std::int64_t left = pairs.num_pairs - j;
  if (left == 0) return;

  constexpr std::size_t most = hn::MaxLanes(Doubles());
  HWY_ALIGN double hi[most] = {}, lo[most] = {};
  HWY_ALIGN float cos_tail[most], sin_tail[most];
  for (std::int64_t i = 0; i < left; ++i) {
    hi[i] = pairs.turns_hi[j + i];
    lo[i] = pairs.turns_lo[j + i];
  }
  store(exact_cos_sin(position_of(j, left), hn::Load(d, hi), hn::Load(d, lo), amplitude), cos_tail, sin_tail);
  for (std::int64_t i = 0; i < left; ++i) {
    cos[j + i] = cos_tail[i];
    sin[j + i] = sin_tail[i];
  }
}

void exact_angles_kernel(const PairAngles& pairs, const double* position, float* cos, float* sin) noexcept {
  const Doubles d;
  if (pairs.axis == nullptr) {
    const Vec everywhere = hn::Set(d, position[0]);
    row(
        pairs, [everywhere](std::int64_t, std::int64_t) HWY_ATTR { return everywhere; }, cos, sin);
  } else {
    row(
        pairs,
        [&](std::int64_t j, std::int64_t count) HWY_ATTR {
          HWY_ALIGN double gathered[hn::MaxLanes(Doubles())] = {};
          for (std::int64_t i = 0; i < count; ++i) gathered[i] = position[pairs.axis[j + i]];
          return hn::Load(Doubles(), gathered);
        },
        cos, sin);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

void exact_angles(const PairAngles& pairs, const double* position, float* cos, float* sin) noexcept {
  ROTARY_KERNEL(exact_angles_kernel)(pairs, position, cos, sin);
}

}  // namespace rotary
#endif
