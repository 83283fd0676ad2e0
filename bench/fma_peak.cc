#include "fma_peak.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <time.h>

#include <cstdint>

#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Operations of `rounds` rounds of independent chains, long enough to hide the latency of an FMA (12 on the machines of
/// today; scalar code has few registers to spare, and more chains do no harm).
double multiply_and_add(std::int64_t rounds, float* sink) noexcept {
  constexpr int chains = 12;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V factor = hn::Set(d, sink[0]), term = hn::Set(d, sink[1]);
  V x[chains];
  unroll<chains>([&](auto i) ROTARY_LAMBDA { x[i] = hn::Set(d, static_cast<float>(i)); });
  for (std::int64_t round = 0; round < rounds; ++round) {
    unroll<chains>([&](auto i) ROTARY_LAMBDA { x[i] = hn::MulAdd(x[i], factor, term); });
  }
  V sum = x[0];
  unroll<chains - 1>([&](auto i) ROTARY_LAMBDA { sum = hn::Add(sum, x[i + 1]); });
  sink[2] = hn::GetLane(sum);
  return 2.0 * chains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary::bench {

double thread_seconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double fma_rate() noexcept {
  volatile float numbers[] = {0.999f, 0.001f};
  float sink[] = {numbers[0], numbers[1], 0};
  const auto kernel = [&](std::int64_t rounds) { return ROTARY_KERNEL(multiply_and_add)(rounds, sink); };
  const double begin = thread_seconds();
  const double operations = kernel(200000);
  const double seconds = thread_seconds() - begin;
  numbers[0] = sink[2];
  return operations / seconds;
}

}  // namespace rotary::bench
#endif
