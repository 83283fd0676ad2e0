// Loops that run through an Executor.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>

#include "rotary/parallel.hpp"

namespace rotary {

/// How many tasks run at the same time: 1 without an executor.
inline std::int64_t concurrency(const Executor* executor) noexcept {
  return executor == nullptr ? 1 : executor->concurrency();
}

/// body(i) for every 0 <= i < count. Without an executor, or with one task, on the caller's thread. The first exception of
/// a body is thrown again here when all tasks are done.
template <class Body>
void parallel_for(Executor* executor, std::int64_t count, const Body& body) {
  if (count <= 1 || concurrency(executor) <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  struct Call {
    const Body& body;
    std::mutex mutex;
    std::exception_ptr failure;
  } call{body, {}, {}};
  executor->run(
      count,
      [](void* context, std::int64_t i) {
        auto& c = *static_cast<Call*>(context);
        try {
          c.body(i);
        } catch (...) {
          const std::lock_guard lock(c.mutex);
          if (!c.failure) c.failure = std::current_exception();
        }
      },
      &call);
  if (call.failure) std::rethrow_exception(call.failure);
}

}  // namespace rotary
