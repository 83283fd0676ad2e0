// A program of its own, so that every allocation in it can be counted.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/position_bias.hpp"
#include "support/error_sentence.h"
#include "support/sanitized.h"

namespace {

std::atomic<std::int64_t> allocated{0}, most_allocated{0}, num_allocations{0};

constexpr std::size_t header = 64;  // keeps the size in front of the block; also the largest alignment that is asked for

void* counted_new_or_null(std::size_t size) noexcept {
  char* const block = static_cast<char*>(std::aligned_alloc(header, (size + 2 * header - 1) / header * header));
  if (block == nullptr) return nullptr;
  *reinterpret_cast<std::size_t*>(block) = size;
  ++num_allocations;
  const std::int64_t now = allocated += static_cast<std::int64_t>(size);
  std::int64_t most = most_allocated;
  while (now > most && !most_allocated.compare_exchange_weak(most, now)) {
  }
  return block + header;
}

void* counted_new(std::size_t size) {
  if (void* const memory = counted_new_or_null(size)) return memory;
  throw std::bad_alloc();
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
// A sanitizer's own would not call the one above, as the standard library's does.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted_new_or_null(size); }
void operator delete(void* memory) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::size_t) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { counted_delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { counted_delete(memory); }

namespace rotary {
namespace {

/// The most that attention of so many tokens had allocated at one moment, beside inputs and outputs.
std::int64_t workspace(std::int64_t length, Executor* executor, std::int64_t window_left = -1) {
  const std::int64_t width = 64;
  std::vector<float> q(static_cast<std::size_t>(length * width), 0.5f), k(q), v(q), out(q);
  const auto view = [&](std::vector<float>& x) { return TensorView(x.data(), "SD", {length, width}); };
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  most_allocated = allocated.load();
  const std::int64_t before = allocated;
  attention(view(q), view(k), view(v), view(out),
            {.rotation = &rotation, .causal = Causal::top_left, .window_left = window_left, .executor = executor});
  return most_allocated - before;
}

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

TEST(AttentionMemory, WorkspaceOfLongerSequencesServesShorterOnesUpToABound) {
  std::vector<float> out(50000 * 128);
  const float row[128] = {};
  ThreadPool two(2), eight(8);
  for (Executor* const executor :
       {static_cast<Executor*>(nullptr), static_cast<Executor*>(&two), static_cast<Executor*>(&eight)}) {
    const std::int64_t threads = executor == nullptr ? 1 : executor->concurrency(), bound = threads << 20;
    for (const std::int64_t width : {64, 128}) {
      const Rotation rotation(
          {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
      for (const Rotation* const turned : {static_cast<const Rotation*>(nullptr), &rotation}) {
        const auto bytes = [&](std::int64_t length) {
          const ConstTensorView same(row, DType::f32, "SD", {length, width}, {0, 1});
          return attention_workspace_bytes(same, same, same, TensorView(out.data(), "SD", {length, width}),
                                           {.rotation = turned, .executor = executor});
        };
        std::int64_t shorter = 0;
        for (const std::int64_t length : {2, 17, 64, 400, 512, 600, 700, 1024, 1600, 2048, 4096, 8192, 20000}) {
          EXPECT_GE(bytes(length), shorter) << length << ", " << width << ", " << threads << " threads";
          shorter = bytes(length);
          EXPECT_LE(shorter, bound) << length << ", " << width << ", " << threads << " threads";
        }
        if (threads == 8) shorter = bytes(30000);  // blocks for many threads grow longer
        EXPECT_EQ(bytes(50000), shorter) << width << ", " << threads << " threads";
      }
    }
  }
}

TEST(AttentionMemory, WorkspaceOfLongerSequencesServesShorterOnesOfManyHeads) {
  // Blocks grow with the rows of all heads: at some lengths a sequence has one block, at shorter ones several, which keep keys.
  const float row[80] = {};
  std::vector<float> out(16 * 1700 * 80);
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    for (const std::int64_t heads : {1, 8, 16}) {
      for (const std::int64_t width : {64, 80}) {
        std::int64_t shorter = 0;
        for (std::int64_t length = 3; length < 1700; length += 7) {
          const ConstTensorView same(row, DType::f32, "HSD", {heads, length, width}, {0, 0, 1});
          const std::int64_t bytes = attention_workspace_bytes(
              same, same, same, TensorView(out.data(), "HSD", {heads, length, width}), {.executor = &pool});
          EXPECT_GE(bytes, shorter) << length << ", " << heads << " of " << width << ", " << threads << " threads";
          shorter = bytes;
        }
      }
    }
  }
}

TEST(AttentionMemory, WorkspaceOfSeveralQueriesServesOne) {
  const std::vector<float> numbers(70 * 256 * 16);
  std::vector<float> out(numbers.size());
  ThreadPool pool(8);
  for (const std::int64_t width : {16, 128}) {
    const Rotation rotation(
        {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
    for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      for (const Rotation* const turned : {static_cast<const Rotation*>(nullptr), &rotation}) {
        for (const std::int64_t num_kv_heads : {1, 8, 32}) {
          const auto bytes = [&](std::int64_t num_queries) {
            const std::int64_t num_q_heads = num_kv_heads < 32 && width > 16 ? num_kv_heads : 8 * num_kv_heads;
            const Dims strides = {0, width, 1};
            const ConstTensorView q(numbers.data(), DType::f32, "SHD", {num_queries, num_q_heads, width}, strides),
                k(numbers.data(), DType::f32, "SHD", {5000, num_kv_heads, width}, strides);
            return attention_workspace_bytes(q, k, k, TensorView(out.data(), "SHD", {num_queries, num_q_heads, width}),
                                             {.rotation = turned, .executor = executor});
          };
          for (const std::int64_t num_queries : {2, 65}) {
            if (num_queries * 8 * num_kv_heads * width > static_cast<std::int64_t>(out.size())) continue;
            EXPECT_GE(bytes(num_queries), bytes(1))
                << num_queries << " queries, " << num_kv_heads << " KV heads of " << width;
          }
        }
      }
    }
  }
}

TEST(AttentionMemory, StaysBelowAMegabyteAtEveryUsualWidth) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {64, 80, 96, 128, 160, 192}) {
      const Rotation rotation(
          {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
      const PositionBias alibi = PositionBias::alibi(alibi_slopes(8));
      const std::vector<float> x(static_cast<std::size_t>(1000 * 8 * width));
      std::vector<float> out(x.size());
      const ConstTensorView view(x.data(), dtype, "SHD", {1000, 8, width});
      for (const PositionBias* const bias : {static_cast<const PositionBias*>(nullptr), &alibi}) {
        EXPECT_LE(attention_workspace_bytes(view, view, view, TensorView(out.data(), dtype, "SHD", view.shape()),
                                            {.rotation = &rotation, .causal = Causal::bottom_right, .bias = bias}),
                  (1 << 20) + 256)
            << name(dtype) << " " << width;
      }
    }
  }
}

TEST(AttentionMemory, StaysWithin64KiBWhereOneQueryIsDecoded) {
  const Rotation rotation(
      {.head_dim = 128, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, 128).inv_freq});
  for (const std::int64_t group : {1, 4, 8}) {
    const std::vector<float> q(static_cast<std::size_t>(8 * group * 128));
    for (const std::int64_t num_keys : {100, 5000}) {
      const std::vector<float> k(static_cast<std::size_t>(num_keys * 8 * 128));
      const ConstTensorView queries(q.data(), "SHD", {1, 8 * group, 128}), keys(k.data(), "SHD", {num_keys, 8, 128});
      std::vector<float> out(q.size());
      for (const Rotation* turns : {static_cast<const Rotation*>(nullptr), &rotation}) {
        EXPECT_LE(attention_workspace_bytes(queries, keys, keys, TensorView(out.data(), "SHD", queries.shape()),
                                            {.rotation = turns, .causal = Causal::bottom_right}),
                  64 << 10)
            << group << " heads share a KV head, " << num_keys << " keys";
      }
    }
  }
}

TEST(AttentionMemory, DoesNotGrowPastAFewThousandTokens) {
  const std::int64_t window_left = 15;  // so that it takes little time
  const std::int64_t some = workspace(2048, nullptr, window_left);
  EXPECT_EQ(workspace(8192, nullptr, window_left), some);
  EXPECT_GT(some, 0);
}

/// A call with everything that needs memory: pairs that are listed, masks, biases, packed sequences, values that are NaN.
TEST(AttentionMemory, AllocatesNothingWhenItIsGivenAWorkspace) {
  const std::int64_t length = 300, width = 20, heads = 4;
  std::vector<float> q(static_cast<std::size_t>(length * heads * width), 0.5f), k(q), v(q), out(q), lse(q.size());
  v[77] = std::numeric_limits<float>::quiet_NaN();
  const auto view = [&](std::vector<float>& x) { return TensorView(x.data(), "THD", {length, heads, width}); };
  const std::vector<std::int64_t> ends = {0, 130, 131, length};
  std::vector<std::int64_t> documents;
  for (std::int64_t t = 0; t < length; ++t) documents.push_back(t % 3);
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::listed, .inv_freq = {1, 0.3}, .pairs_in = {{19, 3}, {4, 5}}});
  const PositionBias alibi = PositionBias::alibi(alibi_slopes(heads));
  const float mask[] = {0, 0, 1, 2};
  const double sinks[] = {1, 2, 3, 4};
  ThreadPool pool(2);
  for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    AttentionOptions options{.rotation = &rotation,
                             .causal = Causal::top_left,
                             .q_document_ids = ConstTensorView(documents.data(), "T", {length}),
                             .k_document_ids = ConstTensorView(documents.data(), "T", {length}),
                             .cu_seqlens = ConstTensorView(ends.data(), "N", {4}),
                             .softcap = 5,
                             .bias = &alibi,
                             .attn_mask = ConstTensorView(mask, "H", {heads}),
                             .sinks = ConstTensorView(sinks, "H", {heads}),
                             .lse = TensorView(lse.data(), "TH", {length, heads}),
                             .executor = executor};
    attention(view(q), view(k), view(v), view(out), options);
    const std::vector<float> expected = out;
    const std::int64_t bytes = attention_workspace_bytes(view(q), view(k), view(v), view(out), options);
    std::vector<char> memory(static_cast<std::size_t>(bytes + 1), 'x');
    options.workspace = memory.data() + 1;  // any address will do
    options.workspace_bytes = bytes;
    const TensorView q_view = view(q), k_view = view(k), v_view = view(v), out_view = view(out);
    const std::int64_t before = num_allocations;
    attention(q_view, k_view, v_view, out_view, options);
    EXPECT_EQ(num_allocations, before);
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0);
  }
}

TEST(AttentionMemory, SaysHowMuchAWorkspaceNeeds) {
  std::vector<float> q(8 * 8, 0.5f), out(q);
  const TensorView q_view(q.data(), "SD", {8, 8}), out_view(out.data(), "SD", {8, 8});
  const std::int64_t bytes = attention_workspace_bytes(q_view, q_view, q_view, out_view);
  std::vector<char> memory(static_cast<std::size_t>(bytes));
  const auto said = [&](void* workspace, std::int64_t size) {
    return error_sentence(ErrorCode::invalid_argument, [&] {
      attention(q_view, q_view, q_view, out_view, {.workspace = workspace, .workspace_bytes = size});
    });
  };
  const std::string needed = "attention: workspace must have " + std::to_string(bytes) + " bytes, got ";
  EXPECT_EQ(said(memory.data(), 0), needed + "0");
  EXPECT_EQ(said(memory.data(), -5), needed + "-5");
  EXPECT_EQ(said(memory.data(), bytes - 65), needed + std::to_string(bytes - 65));
  EXPECT_EQ(said(q.data(), 8), "attention: workspace must not overlap q");
  EXPECT_EQ(said(out.data(), 8), "attention: workspace must not overlap out");
  std::vector<float> lse(8);
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             attention(q_view, q_view, q_view, out_view,
                                       {.lse = {lse.data(), "S", {8}}, .workspace = &lse[7], .workspace_bytes = 8});
                           }),
            "attention: workspace must not overlap lse");
  attention(q_view, q_view, q_view, out_view, {.workspace = memory.data(), .workspace_bytes = bytes});
  EXPECT_EQ(attention_workspace_bytes(q_view.slice('S', 0, 0), q_view, q_view, out_view.slice('S', 0, 0)), 0);
}

}  // namespace
}  // namespace rotary
