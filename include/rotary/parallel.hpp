// Running tasks side by side. The library starts no thread of its own accord: without an executor everything runs on the
// caller's thread. Results never depend on the executor.
#pragma once

#include <cstdint>

#include "rotary/export.hpp"

namespace rotary {

/// An engine's own thread pool goes behind this interface.
class ROTARY_API Executor {
 public:
  virtual ~Executor();
  /// How many tasks can run at the same moment (at least 1).
  virtual int concurrency() const noexcept = 0;
  /// Calls task(context, i) for every 0 <= i < count, in any order, and returns when all are done. `task` does not throw.
  virtual void run(std::int64_t count, void (*task)(void* context, std::int64_t index), void* context) = 0;
};

/// A plain pool for programs that have none. Its threads start in the constructor and end in the destructor.
/// A call of run() that finds the pool at work (for another thread, or for the task that makes the call) does its tasks on
/// its own thread.
class ROTARY_API ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int num_threads);  ///< the calling thread counts as one; throws Error when num_threads < 1
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int concurrency() const noexcept override;
  void run(std::int64_t count, void (*task)(void* context, std::int64_t index), void* context) override;

 private:
  struct Workers;
  Workers* workers_;
};

}  // namespace rotary
