#include "rotary/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "support/error_sentence.h"

namespace rotary {
namespace {

/// An engine's pool: here one that goes backwards on the caller's thread, and counts.
class Backwards final : public Executor {
 public:
  int concurrency() const noexcept override { return 4; }
  void run(std::int64_t count, void (*task)(void*, std::int64_t), void* context) override {
    ++calls;
    while (count-- > 0) task(context, count);
  }
  int calls = 0;
};

std::vector<int> times_run(Executor* executor, std::int64_t count) {
  std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
  parallel_for(executor, count, [&](std::int64_t i) { ++times[static_cast<std::size_t>(i)]; });
  return {times.begin(), times.end()};
}

TEST(ParallelFor, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 8, 1000}) {
      EXPECT_EQ(times_run(&pool, count), std::vector<int>(static_cast<std::size_t>(count), 1)) << threads << " " << count;
    }
  }
}

TEST(ParallelFor, StaysOnTheCallersThreadWithoutAnExecutor) {
  std::set<std::thread::id> threads;
  parallel_for(nullptr, 100, [&](std::int64_t) { threads.insert(std::this_thread::get_id()); });
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST(ParallelFor, UsesTheThreadsOfThePool) {
  // Every task waits for the others, so this ends only where each has a thread of its own.
  ThreadPool pool(4);
  std::atomic<int> arrived{0};
  parallel_for(&pool, 4, [&](std::int64_t) {
    ++arrived;
    while (arrived < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 4);
}

TEST(ParallelFor, GoesThroughAnyExecutor) {
  Backwards engine;
  EXPECT_EQ(times_run(&engine, 100), std::vector<int>(100, 1));
  EXPECT_EQ(engine.calls, 1);
  EXPECT_EQ(times_run(&engine, 1), std::vector<int>(1, 1));
  EXPECT_EQ(engine.calls, 1) << "one task needs nobody's help";
}

TEST(ParallelFor, ShowsWhatTheTasksWroteToTheCaller) {
  ThreadPool pool(4);
  std::vector<std::int64_t> squares(5000);
  for (int round = 0; round < 50; ++round) {
    parallel_for(&pool, 5000, [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] += i; });
  }
  EXPECT_EQ(std::accumulate(squares.begin(), squares.end(), std::int64_t{0}), 50 * (std::int64_t{4999} * 5000 / 2));
}

TEST(ParallelFor, IsOverForThreadsThatComeLate) {
  // Calls so short that threads are often still on their way when all is done; what a call leaves behind is gone then.
  ThreadPool pool(4);
  for (std::int64_t round = 0; round < 10000; ++round) {
    const std::int64_t count = 2 + round % 3;
    ASSERT_EQ(times_run(&pool, count), std::vector<int>(static_cast<std::size_t>(count), 1)) << round;
  }
}

TEST(ParallelFor, ThrowsOneFailureWhenAllAreDone) {
  ThreadPool pool(3);
  Backwards engine;
  for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&engine)}) {
    std::atomic<int> done{0};
    try {
      parallel_for(executor, 100, [&](std::int64_t i) {
        if (i % 10 == 3) throw std::runtime_error("task " + std::to_string(i));
        ++done;
      });
      ADD_FAILURE() << "expected a failure";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 5), "task ");
    }
    EXPECT_EQ(done, 90);
    EXPECT_EQ(times_run(executor, 10), std::vector<int>(10, 1)) << "and goes on working";
  }
}

TEST(ParallelFor, ThrowsTheFirstFailure) {
  Backwards engine;
  try {
    parallel_for(&engine, 100, [](std::int64_t i) { throw i; });
    ADD_FAILURE() << "expected a failure";
  } catch (const std::int64_t i) {
    EXPECT_EQ(i, 99);
  }
}

TEST(ParallelFor, MayBeCalledFromItsOwnTasks) {
  ThreadPool pool(3);
  std::atomic<int> runs{0};
  parallel_for(&pool, 8, [&](std::int64_t) { parallel_for(&pool, 8, [&](std::int64_t) { ++runs; }); });
  EXPECT_EQ(runs, 64);
}

TEST(ParallelFor, MayBeCalledFromSeveralThreads) {
  ThreadPool pool(3);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) parallel_for(&pool, 16, [&](std::int64_t) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 4 * 100 * 16);
}

TEST(ThreadPool, RefusesLessThanOneThread) {
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [] { ThreadPool pool(0); }),
            "ThreadPool: num_threads must be at least 1, got 0");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [] { ThreadPool pool(-3); }),
            "ThreadPool: num_threads must be at least 1, got -3");
}

TEST(ThreadPool, ComesAndGoesWithoutWork) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(4);
}

}  // namespace
}  // namespace rotary
