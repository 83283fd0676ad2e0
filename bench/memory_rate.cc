#include "memory_rate.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "memory_rate.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(address) for every vector, `streams` places at a time, 8 vectors a round.
template <int streams, int prefetch_bytes, class Body>
HWY_INLINE void each_vector(std::uint32_t* words, std::int64_t num_words, const Body& body) {
  constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<std::uint32_t>()));
  constexpr std::int64_t step = 8 / streams * lanes;
  const std::int64_t stream_words = num_words / streams;
  for (std::int64_t i = 0; i + step <= stream_words; i += step) {
    unroll<8>([&](auto v) ROTARY_LAMBDA {
      std::uint32_t* const at = words + v % streams * stream_words + i + v / streams * lanes;
      if (prefetch_bytes > 0) __builtin_prefetch(reinterpret_cast<const char*>(at) + prefetch_bytes);
      body(v, at);
    });
  }
}

template <int streams, int prefetch_bytes>
std::uint32_t or_all(std::uint32_t* words, std::int64_t num_words) noexcept {
  const hn::ScalableTag<std::uint32_t> d;
  hn::Vec<decltype(d)> bits[8];
  unroll<8>([&](auto i) ROTARY_LAMBDA { bits[i] = hn::Zero(d); });
  each_vector<streams, prefetch_bytes>(words, num_words, [&](auto v, const std::uint32_t* at) ROTARY_LAMBDA {
    bits[v] = hn::Or(bits[v], hn::LoadU(d, at));
  });
  auto all = bits[0];
  unroll<7>([&](auto i) ROTARY_LAMBDA { all = hn::Or(all, bits[i + 1]); });
  return hn::GetLane(all);
}

template <int streams, int prefetch_bytes>
void flip_all(std::uint32_t* words, std::int64_t num_words, std::uint32_t mask) noexcept {
  const hn::ScalableTag<std::uint32_t> d;
  const auto flip = hn::Set(d, mask);
  each_vector<streams, prefetch_bytes>(
      words, num_words, [&](auto, std::uint32_t* at) ROTARY_LAMBDA { hn::StoreU(hn::Xor(hn::LoadU(d, at), flip), d, at); });
}

std::uint32_t read_once(int loop, std::uint32_t* words, std::int64_t num_words) noexcept {
  switch (loop) {
    case 0: return or_all<1, 0>(words, num_words);
    case 1: return or_all<2, 0>(words, num_words);
    case 2: return or_all<4, 0>(words, num_words);
    case 3: return or_all<1, 2048>(words, num_words);
    default: return or_all<2, 2048>(words, num_words);
  }
}

void write_once(int loop, std::uint32_t* words, std::int64_t num_words, std::uint32_t mask) noexcept {
  switch (loop) {
    case 0: return flip_all<1, 0>(words, num_words, mask);
    case 1: return flip_all<2, 0>(words, num_words, mask);
    case 2: return flip_all<4, 0>(words, num_words, mask);
    case 3: return flip_all<1, 2048>(words, num_words, mask);
    default: return flip_all<2, 2048>(words, num_words, mask);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "clock.h"
#include "kernels/dispatch.h"

namespace rotary::bench {
namespace {

constexpr int num_loops = 5;
constexpr std::size_t round_bytes = 8 * 64;  // whole rounds of every loop, with vectors up to those of AVX-512

double bytes_of_pass(Traffic traffic, const std::vector<std::pair<void*, std::size_t>>& pieces) {
  double bytes = 0;
  for (const auto& piece : pieces) bytes += static_cast<double>(piece.second);
  return traffic == Traffic::in_place ? 2 * bytes : bytes;
}

}  // namespace

MemoryRate::MemoryRate(Traffic traffic, const std::vector<std::pair<void*, std::size_t>>& pieces)
    : traffic_(traffic), pieces_(pieces) {
  for (auto& piece : pieces_) piece.second -= piece.second % round_bytes;
  passes_ = static_cast<int>(std::clamp(1e-3 * rate(0, 2) / bytes_of_pass(traffic_, pieces_), 1.0, 1e6));
  double best[num_loops] = {};
  for (int turn = 0; turn < 3; ++turn) {
    for (int loop = 0; loop < num_loops; ++loop) best[loop] = std::max(best[loop], rate(loop, passes_));
  }
  loop_ = static_cast<int>(std::max_element(best, best + num_loops) - best);
}

double MemoryRate::measure() const noexcept { return rate(loop_, passes_); }

double MemoryRate::rate(int loop, int passes) const noexcept {
  volatile std::uint32_t nothing = 0;
  const auto read = ROTARY_KERNEL(read_once);
  const auto write = ROTARY_KERNEL(write_once);
  const double begin = thread_seconds();
  for (int pass = 0; pass < passes; ++pass) {
    for (const auto& [memory, num_bytes] : pieces_) {
      auto* const words = static_cast<std::uint32_t*>(memory);
      const auto num_words = static_cast<std::int64_t>(num_bytes / sizeof *words);
      if (traffic_ == Traffic::read) nothing = nothing | read(loop, words, num_words);
      else write(loop, words, num_words, 0);
    }
  }
  return bytes_of_pass(traffic_, pieces_) * passes / (thread_seconds() - begin);
}

}  // namespace rotary::bench
#endif
