// Measuring a call against the limit of the machine at the same moment.
//
// Shared machines run at full speed at times and at half speed at others, often without a program being able to tell from its
// own clock. So every sample of the work stands between two looks at the machine: how fast it computes, reads the nearest
// cache, and begins plain instructions (a neighbour on the other half of a core takes little of the first and much of the
// others). A sample counts only where both were near the best that this process has seen; others are rejected and repeated, up
// to a bound. Limits are measured in turn with the work. Figures are medians of the samples that count.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <sstream>
#include <string>

#include "rotary/parallel.hpp"

namespace rotary::bench {

/// Makes a case known to Google Benchmark, which names, chooses and prints them. It runs once: the sampling is done in here.
void add_case(const std::string& name, const std::function<void(benchmark::State&)>& run);

/// rotate/float32/512, of its parts.
template <class... Parts>
std::string title(const Parts&... parts) {
  std::ostringstream words;
  const char* between = "";
  ((words << between << parts, between = "/"), ...);
  return words.str();
}

/// What is measured, and against what.
struct Work {
  std::function<void()> call;
  double operations = 0;         ///< floating-point operations of one call, by the formula; an FMA is two
  double bytes = 0;              ///< that one call must move
  double target = 0;             ///< percent of the limit that we want; 0: none
  Executor* executor = nullptr;  ///< of the call; its threads all compute at the same time when the limit is measured
};

/// GFLOP/s, against the rate of independent multiply-adds.
void measure_computing(benchmark::State& state, const Work& work);

/// GB/s, against a loop that only moves the same memory: `limit` returns its bytes per second.
void measure_moving(benchmark::State& state, const Work& work, const std::function<double()>& limit);

/// Nanoseconds; work.target is ignored. `most`: how many it may take, the row's limit (0: none).
void measure_time(benchmark::State& state, const Work& work, double most);

/// Some other rate, work.operations per second: `limit` returns what is to be compared with, from a run of a millisecond or
/// more.
void measure_beside(benchmark::State& state, const Work& work, const std::function<double()>& limit);

}  // namespace rotary::bench
