#include "fma_peak.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <time.h>

#include <algorithm>
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

void change_in_place(float* numbers, std::int64_t count) noexcept {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    unroll<4>([&](auto v) ROTARY_LAMBDA {
      float* const x = numbers + i + v * lanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, x), factor, term), d, x);
    });
  }
  for (; i < count; ++i) numbers[i] = numbers[i] * 0.999f + 0.001f;
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

double in_place_seconds(float* numbers, std::int64_t count) noexcept {
  const auto kernel = ROTARY_KERNEL(change_in_place);
  const std::int64_t passes = std::max<std::int64_t>(2, (1 << 18) / count);  // some tens of microseconds at a time
  double best = 1e30;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double begin = thread_seconds();
    for (std::int64_t pass = 0; pass < passes; ++pass) kernel(numbers, count);
    best = std::min(best, (thread_seconds() - begin) / static_cast<double>(passes));
  }
  return best;
}

}  // namespace rotary::bench
#endif
