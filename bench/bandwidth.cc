#include "bandwidth.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bandwidth.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "fma_peak.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The bits of all words, or-ed.
std::uint32_t or_all(const std::uint32_t* words, std::int64_t num_words) noexcept {
  constexpr int streams = 8;
  const hn::ScalableTag<std::uint32_t> d;
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  hn::Vec<decltype(d)> bits[streams];
  unroll<streams>([&](auto i) ROTARY_LAMBDA { bits[i] = hn::Zero(d); });
  for (std::int64_t i = 0; i + streams * lanes <= num_words; i += streams * lanes) {
    unroll<streams>([&](auto j) ROTARY_LAMBDA { bits[j] = hn::Or(bits[j], hn::LoadU(d, words + i + j * lanes)); });
  }
  auto all = bits[0];
  unroll<streams - 1>([&](auto i) ROTARY_LAMBDA { all = hn::Or(all, bits[i + 1]); });
  return hn::GetLane(all);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <benchmark/benchmark.h>

#include "kernels/dispatch.h"

namespace rotary::bench {

double read_rate(const void* memory, std::size_t num_bytes) noexcept {
  const auto num_words = static_cast<std::int64_t>(num_bytes / sizeof(std::uint32_t));
  const double begin = thread_seconds();
  benchmark::DoNotOptimize(ROTARY_KERNEL(or_all)(static_cast<const std::uint32_t*>(memory), num_words));
  return static_cast<double>(num_bytes) / (thread_seconds() - begin);
}

}  // namespace rotary::bench
#endif
