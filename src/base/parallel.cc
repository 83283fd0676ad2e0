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

namespace {

/// Looks a while before the caller goes to sleep, as to be woken takes longer than most waits: for threads that are about to
/// end their share, or for the next of several calls. Others may have the core meanwhile.
template <class Ready>
void expect(const Ready& ready) {
  constexpr int most_looks = 200;  // some tens of microseconds
  for (int i = 0; i < most_looks && !ready(); ++i) std::this_thread::yield();
}

}  // namespace

struct ThreadPool::Workers {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable work_arrived;
  std::condition_variable work_done;
  void (*task)(void*, std::int64_t) = nullptr;
  void* context = nullptr;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  // What follows changes under the mutex.
  bool is_open = false;      // workers may join the round
  std::atomic<int> busy{0};  // those that have, and have not finished
  std::atomic<std::uint64_t> round{0};
  std::atomic<bool> stop{false};
  std::atomic_flag in_use;

  void drain() {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, i);
  }

  void work() {
    std::uint64_t seen = 0;
    const auto has_arrived = [&] { return stop || round != seen; };
    while (true) {
      expect(has_arrived);
      std::unique_lock lock(mutex);
      work_arrived.wait(lock, has_arrived);
      if (stop) return;
      seen = round;
      if (!is_open) continue;
      ++busy;
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
    w.is_open = true;
    ++w.round;
  }
  w.work_arrived.notify_all();
  w.drain();
  {
    const std::lock_guard lock(w.mutex);
    w.is_open = false;  // who comes now is not waited for
  }
  const auto is_done = [&] { return w.busy == 0; };
  expect(is_done);
  std::unique_lock lock(w.mutex);
  w.work_done.wait(lock, is_done);
  w.in_use.clear(std::memory_order_release);
}

}  // namespace rotary
