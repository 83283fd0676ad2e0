// A program of its own, so that every allocation in it can be counted.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"

namespace {

std::atomic<std::int64_t> allocated{0}, most_allocated{0};

constexpr std::size_t header = 64;  // keeps the size in front of the block; also the largest alignment that is asked for

void* counted_new(std::size_t size) {
  char* const block = static_cast<char*>(std::aligned_alloc(header, (size + 2 * header - 1) / header * header));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = size;
  const std::int64_t now = allocated += static_cast<std::int64_t>(size);
  std::int64_t most = most_allocated;
  while (now > most && !most_allocated.compare_exchange_weak(most, now)) {
  }
  return block + header;
}

void counted_delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* const block = static_cast<char*>(memory) - header;
  allocated -= static_cast<std::int64_t>(*reinterpret_cast<std::size_t*>(block));
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return counted_new(size); }
void* operator new(std::size_t size, std::align_val_t) { return counted_new(size); }
void operator delete(void* memory) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { counted_delete(memory); }

namespace rotary {
namespace {

/// The most that attention of so many tokens had allocated at one moment, beside inputs and outputs.
std::int64_t workspace(std::int64_t length, Executor* executor) {
  const std::int64_t width = 64;
  std::vector<float> q(static_cast<std::size_t>(length * width), 0.5f), k(q), v(q), out(q);
  const auto view = [&](std::vector<float>& x) { return TensorView(x.data(), "SD", {length, width}); };
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  most_allocated = allocated.load();
  const std::int64_t before = allocated;
  attention(view(q), view(k), view(v), view(out),
            {.rotation = &rotation, .causal = Causal::top_left, .executor = executor});
  return most_allocated - before;
}

// A sanitizer keeps memory of its own beside ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// KiB: the most that the process has ever had in memory.
std::int64_t peak_resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(AttentionMemory, StaysBelow16MiBAt8192Tokens) {
  const std::int64_t length = sanitized ? 1024 : 8192;  // sanitized code is slow
  const std::int64_t resident = peak_resident();
  EXPECT_LT(workspace(length, nullptr), 1 << 20) << "one thread: less than a megabyte";
  ThreadPool pool(8);
  EXPECT_LT(workspace(length, &pool), 16 << 20);
  if (sanitized) return;
  EXPECT_LT(peak_resident() - resident, (8 + 16) << 10) << "KiB: inputs and outputs, 8 MiB, and 16 MiB";
}

TEST(AttentionMemory, DoesNotGrowWithTheLength) {
  const std::int64_t length = sanitized ? 512 : 1024;
  const std::int64_t some = workspace(length, nullptr);
  EXPECT_EQ(workspace(4 * length, nullptr), some);
  EXPECT_GT(some, 0);
}

}  // namespace
}  // namespace rotary
