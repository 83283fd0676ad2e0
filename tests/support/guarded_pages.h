// Memory that faults as soon as anything touches a byte before or after it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace rotary {

class GuardedPages {
 public:
  explicit GuardedPages(std::size_t num_bytes) : num_bytes_(num_bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inner_bytes_ = (num_bytes + page - 1) / page * page;
    mapped_bytes_ = inner_bytes_ + 2 * page;
    void* const mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<std::byte*>(mapped);
    inner_ = mapped_ + page;
    if (inner_bytes_ > 0 && mprotect(inner_, inner_bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~GuardedPages() { munmap(mapped_, mapped_bytes_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  /// The last num_bytes before the guard behind, and the first after the guard in front.
  void* at_end() const { return inner_ + inner_bytes_ - num_bytes_; }
  void* at_begin() const { return inner_; }

 private:
  std::size_t num_bytes_, inner_bytes_ = 0, mapped_bytes_ = 0;
  std::byte* mapped_ = nullptr;
  std::byte* inner_ = nullptr;
};

}  // namespace rotary
