// Counts the pieces of a call that are done, on any thread, for its caller's Progress.
#pragma once

#include <cstdint>
#include <mutex>

#include "rotary/progress.hpp"

namespace rotary {

class ProgressCount {
 public:
  ProgressCount(const Progress& progress, std::int64_t total) noexcept : progress_(progress), total_(total) {}

  void finish_one() {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    progress_.function(progress_.context, ++done_, total_);
  }

 private:
  const Progress& progress_;
  std::int64_t total_, done_ = 0;
  std::mutex mutex_;
};

}  // namespace rotary
