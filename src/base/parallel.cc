#include "rotary/parallel.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fail.h"
#include "base/parallel.h"

namespace rotary {

Executor::~Executor() = default;

struct ThreadPool::Workers {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable work_arrived;
  std::condition_variable work_done;
  void (*task)(void*, std::int64_t) = nullptr;
  void* context = nullptr;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  int busy = 0;  // workers that have not finished this round
  std::uint64_t round = 0;
  bool stop = false;
  std::atomic_flag in_use;

  void drain() {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i);
  }

  void work() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      work_arrived.wait(lock, [&] { return stop || round != seen; });
      if (stop) return;
      seen = round;
      lock.unlock();
      drain();
      lock.lock();
      if (--busy == 0) work_done.notify_one();
    }
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work_arrived.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(int num_threads) : workers_(nullptr) {
  if (num_threads < 1) fail_argument("ThreadPool", "num_threads must be at least 1, got ", num_threads);
  auto* workers = new Workers;
  try {
    for (int i = 1; i < num_threads; ++i) workers->threads.emplace_back([workers] { workers->work(); });
  } catch (...) {
    workers->end();
    delete workers;
    throw;
  }
  workers_ = workers;
}

ThreadPool::~ThreadPool() {
  workers_->end();
  delete workers_;
}

int ThreadPool::concurrency() const noexcept { return static_cast<int>(workers_->threads.size()) + 1; }

void ThreadPool::run(std::int64_t count, void (*task)(void* context, std::int64_t index), void* context) {
  Workers& w = *workers_;
  if (w.in_use.test_and_set(std::memory_order_acquire)) {
    for (std::int64_t i = 0; i < count; ++i) task(context, i);
    return;
  }
  {
    const std::lock_guard lock(w.mutex);
    w.task = task;
    w.context = context;
    w.count = count;
    w.next.store(0, std::memory_order_relaxed);
    w.busy = static_cast<int>(w.threads.size());
    ++w.round;
  }
  w.work_arrived.notify_all();
  w.drain();
  std::unique_lock lock(w.mutex);
  w.work_done.wait(lock, [&] { return w.busy == 0; });
  w.in_use.clear(std::memory_order_release);
}

}  // namespace rotary
