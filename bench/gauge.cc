#include "gauge.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "fma_peak.h"
#include "memory_rate.h"
#include "rotary/isa.hpp"

namespace rotary::bench {
namespace {

constexpr int wanted = 15, fewest = 5, most_tries = 4;  // samples of a case; tries for each
constexpr int most_waits = 10;                          // looks at a slow machine before a sample is taken nevertheless
constexpr double sample_seconds = 2e-3;
constexpr double near_best = 0.85;  // a core's clock moves by a tenth; a neighbour takes a quarter and more

/// For each case, where that is enough for the fewest samples; three times as long where samples are rejected.
double case_seconds() {
  const char* const said = std::getenv("ROTARY_BENCH_SECONDS");
  return said == nullptr ? 0.4 : std::strtod(said, nullptr);
}

int threads_of(const Work& work) { return work.executor == nullptr ? 1 : work.executor->concurrency(); }

/// A thread of its own is timed by its processor time, several by the clock on the wall.
double seconds_now(const Work& work) { return threads_of(work) == 1 ? thread_seconds() : wall_seconds(); }

/// Multiply-adds per second of all threads of the work, which begin together.
double fma_rate_of(const Work& work) {
  const int threads = threads_of(work);
  if (threads == 1) return fma_rate();
  struct Meeting {
    int threads;
    std::atomic<int> arrived = 0;
    std::atomic<double> begin = 0, operations = 0;
  } meeting{threads};
  work.executor->run(
      threads,
      [](void* context, std::int64_t) {
        auto& all = *static_cast<Meeting*>(context);
        if (++all.arrived == all.threads) all.begin = wall_seconds();
        while (all.begin == 0) {
        }
        const double operations = multiply_and_add(200000);
        for (double before = all.operations; !all.operations.compare_exchange_weak(before, before + operations);) {
        }
      },
      &meeting);
  return meeting.operations / (wall_seconds() - meeting.begin);
}

/// How fast the machine is just now.
struct Pulse {
  double computing, reading, issuing;
};

Pulse pulse(const Work& work) {
  alignas(64) static unsigned char nearest_cache[32 << 10];
  static const MemoryRate reading(Traffic::read, {{nearest_cache, sizeof nearest_cache}});
  return {fma_rate_of(work), reading.measure(), issue_rate()};
}

/// Rates of one thread, or of several, at their best in this process.
Pulse& best_pulse(int threads) {
  static std::vector<Pulse> best;
  if (best.size() <= static_cast<std::size_t>(threads)) best.resize(static_cast<std::size_t>(threads) + 1);
  return best[static_cast<std::size_t>(threads)];
}

void learn(Pulse& best, const Pulse& seen) {
  best.computing = std::max(best.computing, seen.computing);
  best.reading = std::max(best.reading, seen.reading);
  best.issuing = std::max(best.issuing, seen.issuing);
}

/// 1 and more: near the best that was seen.
double speed_of(const Pulse& seen, const Pulse& best) {
  return std::min({seen.computing / best.computing, seen.reading / best.reading, seen.issuing / best.issuing}) / near_best;
}

struct Sample {
  double seconds;  ///< of one call
  double limit;
  Pulse before, after;
};

double speed_of(const Sample& sample, const Pulse& best) {
  return std::min(speed_of(sample.before, best), speed_of(sample.after, best));
}

double quantile(std::vector<double> values, double part) {
  const auto at = values.begin() + std::lround(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Samples, taken until enough of them count.
class Gauge {
 public:
  Gauge(const Work& work, std::function<double()> limit)
      : work_(work), limit_(std::move(limit)), best_(best_pulse(threads_of(work))) {
    work_.call();  // fills caches, and makes what is made once
    const double begin = seconds_now(work_);
    work_.call();
    calls_ = static_cast<int>(std::clamp(sample_seconds / (seconds_now(work_) - begin), 1.0, 1e6));
    for (int i = 0; i < 5; ++i) learn(best_, pulse(work_));
  }

  void take() {
    Pulse now = pulse(work_);
    const double end = wall_seconds() + case_seconds(), last = end + 3 * case_seconds();
    int good = 0;
    const auto enough = [&] { return good >= wanted || (good >= fewest && wall_seconds() > end); };
    const auto tries = [&] { return static_cast<int>(samples_.size()); };
    const auto too_many = [&] { return tries() >= most_tries * wanted || (tries() >= fewest && wall_seconds() > last); };
    while (!enough() && !too_many()) {
      for (int i = 0; i < most_waits && speed_of(now, best_) < 1 && wall_seconds() < last; ++i) now = pulse(work_);
      Sample sample{0, limit_ ? limit_() : 0, now, {}};
      const double begin = seconds_now(work_);
      for (int i = 0; i < calls_; ++i) work_.call();
      sample.seconds = (seconds_now(work_) - begin) / calls_;
      sample.after = now = pulse(work_);
      if (!limit_) sample.limit = std::max(sample.before.computing, sample.after.computing);
      learn(best_, now);
      good += speed_of(sample, best_) >= 1 ? 1 : 0;
      samples_.push_back(sample);
    }
    keep_what_counts();
  }

  int rejected() const { return rejected_; }
  int count() const { return static_cast<int>(samples_.size()); }
  double median_seconds() const { return quantile(seconds(), 0.5); }
  double median_limit() const {
    std::vector<double> limits;
    for (const Sample& sample : samples_) limits.push_back(sample.limit);
    return quantile(limits, 0.5);
  }
  /// The slower side of each sample, in the middle of all.
  Pulse median_pulse() const {
    const auto median = [&](double Pulse::*rate) {
      std::vector<double> rates;
      for (const Sample& sample : samples_) rates.push_back(std::min(sample.before.*rate, sample.after.*rate));
      return quantile(rates, 0.5);
    };
    return {median(&Pulse::computing), median(&Pulse::reading), median(&Pulse::issuing)};
  }
  /// Between the quartiles, of the median.
  double spread() const { return (quantile(seconds(), 0.75) - quantile(seconds(), 0.25)) / median_seconds(); }

 private:
  /// By what is known of the machine in the end. Where hardly a sample counts, those that come nearest stay; rejected() tells.
  void keep_what_counts() {
    std::stable_sort(samples_.begin(), samples_.end(),
                     [&](const Sample& a, const Sample& b) { return speed_of(a, best_) > speed_of(b, best_); });
    const auto counting =
        std::count_if(samples_.begin(), samples_.end(), [&](const Sample& s) { return speed_of(s, best_) >= 1; });
    rejected_ = static_cast<int>(samples_.size() - static_cast<std::size_t>(counting));
    samples_.resize(
        std::max<std::size_t>(static_cast<std::size_t>(counting), std::min<std::size_t>(samples_.size(), fewest)));
  }

  std::vector<double> seconds() const {
    std::vector<double> all;
    for (const Sample& sample : samples_) all.push_back(sample.seconds);
    return all;
  }

  const Work& work_;
  std::function<double()> limit_;  // none: the rate of multiply-adds
  Pulse& best_;
  int calls_ = 1, rejected_ = 0;
  std::vector<Sample> samples_;
};

/// Fills in the row: what run.py reads.
void report(benchmark::State& state, const Work& work, const Gauge& gauge, const std::string& unit, double figure,
            double limit, double percent, double target) {
  auto& counters = state.counters;
  counters["median_ns"] = 1e9 * gauge.median_seconds();
  counters["figure"] = figure;
  counters["limit"] = limit;
  counters["percent_of_limit"] = percent;
  counters["target_percent"] = target;
  counters["threads"] = threads_of(work);
  counters["spread_percent"] = 100 * gauge.spread();
  counters["samples"] = gauge.count();
  counters["rejected"] = gauge.rejected();
  const Pulse then = gauge.median_pulse();
  counters["computing_then"] = 1e-9 * then.computing;
  counters["reading_then"] = 1e-9 * then.reading;
  counters["issuing_then"] = 1e-9 * then.issuing;
  counters["operations"] = work.operations;
  counters["bytes"] = work.bytes;
  state.SetLabel(std::string(name(active_isa())) + " " + unit);
}

void measure_rate(benchmark::State& state, const Work& work, double amount, const std::string& unit,
                  const std::function<double()>& limit) {
  while (state.KeepRunning()) {
    Gauge gauge(work, limit);
    gauge.take();
    const double figure = amount / gauge.median_seconds(), best = gauge.median_limit();
    report(state, work, gauge, unit, 1e-9 * figure, 1e-9 * best, 100 * figure / best, work.target);
    state.SetIterationTime(gauge.median_seconds());
  }
}

}  // namespace

void add_case(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): Google Benchmark keeps its cases to the end
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

void measure_computing(benchmark::State& state, const Work& work) {
  measure_rate(state, work, work.operations, "GFLOP/s", {});
}

void measure_moving(benchmark::State& state, const Work& work, const std::function<double()>& limit) {
  measure_rate(state, work, work.bytes, "GB/s", limit);
}

void measure_beside(benchmark::State& state, const Work& work, const std::function<double()>& limit) {
  measure_rate(state, work, work.operations, "GFLOP/s", limit);
}

void measure_time(benchmark::State& state, const Work& work, double most) {
  while (state.KeepRunning()) {
    Gauge gauge(work, {});
    gauge.take();
    const double ns = 1e9 * gauge.median_seconds();
    report(state, work, gauge, "ns", ns, most, 100 * most / ns, most > 0 ? 100 : 0);
    state.SetIterationTime(gauge.median_seconds());
  }
}

}  // namespace rotary::bench
