// What rotate touches: nothing outside its tensors, everything inside, at any distance, on any number of threads.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/parallel.hpp"
#include "rotary/rotate.hpp"
#include "support/guarded_pages.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

using InPlace = void (*)(const TensorView&, const Rotation&, const Positions&, const RotateOptions&);

Rotation rotation_of(Pairing pairing, std::int64_t head_dim, std::int64_t rotary_dim, std::int64_t rotary_offset = 0) {
  return Rotation({.head_dim = head_dim,
                   .rotary_offset = rotary_offset,
                   .pairing_in = pairing,
                   .inv_freq = default_frequencies(1e4, rotary_dim).inv_freq});
}

TEST(RotateMemory, IsNotReadOrWrittenBeyondTheLastPage_S4_S7_V13) {
  for (const DType dtype : all_dtypes) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t base : {0, 8, 32, 64}) {
        for (std::int64_t more = 1; more <= 17; ++more) {
          const std::int64_t rotary_dim = base + 2 * more;
          const Rotation rotation = rotation_of(pairing, rotary_dim, rotary_dim);
          const Dims shape = {3, 2, rotary_dim};
          const auto num_bytes = static_cast<std::size_t>(6 * rotary_dim * bit_size(dtype) / 8);
          const GuardedPages source(num_bytes), target(num_bytes);
          std::memset(source.at_end(), 0, num_bytes);
          std::memset(source.at_begin(), 0, num_bytes);
          rotate(TensorView(source.at_end(), dtype, "SHD", shape), rotation, {.offset = 5});
          rotate(TensorView(source.at_begin(), dtype, "SHD", shape), rotation, {.offset = 5});
          rotate(TensorView(source.at_end(), dtype, "HSD", {2, 3, rotary_dim}), rotation, {.offset = 5});
          rotate_to(ConstTensorView(source.at_end(), dtype, "SHD", shape), TensorView(target.at_end(), dtype, "SHD", shape),
                    rotation);
          rotate_to(ConstTensorView(source.at_begin(), dtype, "SHD", shape),
                    TensorView(target.at_begin(), dtype, "SHD", shape), rotation);
        }
      }
    }
  }
}

TEST(RotateMemory, OfPositionsAndTablesIsNotReadBeyondTheLastPage_P8_V11) {
  const Rotation rotation = rotation_of(Pairing::half, 10, 10);
  const GuardedPages ids(7 * sizeof(std::int64_t));
  auto* const id = static_cast<std::int64_t*>(ids.at_end());
  for (int i = 0; i < 7; ++i) id[i] = i;
  const AngleTable table = AngleTable::build(rotation, 0, 7);
  TestTensor x(DType::f32, "SHD", {7, 2, 10});
  rotate(x.fill(1), rotation, {.position_ids = ConstTensorView(id, "S", {7})});
  rotate(x, rotation, {.position_ids = ConstTensorView(id, "S", {7})}, {.table = &table});
}

TEST(RotateMemory, BesideASliceOfTheHeadStaysAsItWas_S4) {
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t rotary_dim : {2, 6, 10, 20, 24, 72}) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        const Rotation rotation = rotation_of(pairing, rotary_dim + 7, rotary_dim, 4);
        TestTensor x(dtype, "BSHD", {4, 1, 8, rotary_dim + 7}), before(dtype, "BSHD", {4, 1, 8, rotary_dim + 7});
        before.fill_from(x.fill_at_random(1));
        rotate(x, rotation, {.offset = 3});
        for (std::int64_t i = 0; i < x.size(); ++i) {
          const std::int64_t d = i % (rotary_dim + 7);
          if (d < 4 || d >= 4 + rotary_dim) {
            EXPECT_EQ(x[i], before[i]);
          }
        }
        EXPECT_NE(x[4], before[4]);
        EXPECT_TRUE(x.guards_intact());
      }
    }
  }
}

TEST(RotateMemory, IsReachedAtAnyDistance_S9) {
  // Rows 2^31 elements and more apart, in an address space that is reserved but never filled.
  constexpr std::int64_t token_stride = (std::int64_t{1} << 31) + 64, head_stride = 128;
  constexpr auto num_bytes = static_cast<std::size_t>(3 * token_stride) * sizeof(float);
  void* const mapped = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space of " << num_bytes << " bytes";

  auto* const memory = static_cast<float*>(mapped);
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved, Pairing::listed}) {
    RotationSpec spec{.head_dim = 6, .pairing_in = pairing, .inv_freq = {1, 0.1, 0.01}};
    if (pairing == Pairing::listed) spec.pairs_in = {{5, 0}, {4, 1}, {3, 2}};
    const Rotation rotation(spec);
    TestTensor near(DType::f32, "SHD", {3, 2, 6});
    near.fill_at_random(2);
    for (std::int64_t i = 0; i < near.size(); ++i) {
      memory[i / 12 * token_stride + i / 6 % 2 * head_stride + i % 6] = static_cast<float>(near[i]);
    }
    rotate(near, rotation, {.offset = 7});
    rotate(TensorView(memory, DType::f32, "SHD", {3, 2, 6}, {token_stride, head_stride, 1}), rotation, {.offset = 7});
    for (std::int64_t i = 0; i < near.size(); ++i) {
      EXPECT_EQ(memory[i / 12 * token_stride + i / 6 % 2 * head_stride + i % 6], near[i]);
    }
  }
  munmap(mapped, num_bytes);
}

TEST(RotateMemory, HoldsTheSameBitsOnAnyNumberOfThreads) {
  for (const DType dtype : all_dtypes) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      const Rotation rotation = rotation_of(pairing, 20, 14, 2);
      for (const char* order : {"BSHD", "BHSD"}) {
        TestTensor q(dtype, "BSHD", {2, 331, 6, 20}, {.order = order}), k(dtype, "BSHD", {2, 331, 2, 20});
        q.fill_at_random(3);
        k.fill_at_random(4);
        rotate(q, k, rotation, {.offset = 100});
        for (const int threads : {1, 2, 3, 7}) {
          ThreadPool pool(threads);
          TestTensor other_q(dtype, "BSHD", {2, 331, 6, 20}, {.order = order}), other_k(dtype, "BSHD", {2, 331, 2, 20});
          other_q.fill_at_random(3);
          other_k.fill_at_random(4);
          rotate(other_q, other_k, rotation, {.offset = 100}, {.executor = &pool});
          EXPECT_EQ(other_q.values(), q.values());
          EXPECT_EQ(other_k.values(), k.values());
        }
      }
    }
  }
}

TEST(RotateMemory, HoldsTheSameBitsHoweverTokensAreCut) {
  // One token of one head alone, at the start of its own memory, is what it is among all others.
  const Rotation rotation = rotation_of(Pairing::half, 72, 72);
  for (const DType dtype : all_dtypes) {
    TestTensor all(dtype, "SHD", {67, 3, 72}), before(dtype, "SHD", {67, 3, 72});
    before.fill_from(all.fill_at_random(5));
    rotate(all, rotation, {.offset = 4096});
    for (const std::int64_t token : {0, 1, 31, 66}) {
      TestTensor one(dtype, "SHD", {1, 1, 72});
      for (std::int64_t d = 0; d < 72; ++d) one.set(d, before.at({token, 2, d}));
      rotate(one, rotation, {.offset = 4096 + token});
      for (std::int64_t d = 0; d < 72; ++d) EXPECT_EQ(one[d], all.at({token, 2, d}));
    }
  }
}

TEST(RotateMemory, HoldsTheSameBitsWhereManyTokensFollowEachOther) {
  // Their angles are made from each other's; those of one token are not. Positions below 0, repeated, left out, halves.
  constexpr std::int64_t length = 150;
  std::vector<double> ids;
  for (std::int64_t token = 0; token < length; ++token) {
    const std::int64_t jump = token < 50 ? -20 : token < 51 ? -21 : token < 90 ? 4096 : 100000;
    ids.push_back(static_cast<double>(jump + token) + (token == 120 ? 0.5 : 0));
  }
  for (const DType dtype : all_dtypes) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      const Rotation rotation = rotation_of(pairing, 72, 50, 4);
      for (const auto turn :
           {static_cast<InPlace>(rotate), static_cast<InPlace>(unrotate), static_cast<InPlace>(rotate_backward)}) {
        TestTensor all(dtype, "SHD", {length, 2, 72}), alone(dtype, "SHD", {length, 2, 72});
        alone.fill_from(all.fill_at_random(6));
        turn(all, rotation, {.position_ids = ConstTensorView(ids.data(), "S", {length})}, {});
        for (std::int64_t token = 0; token < length; ++token) {
          const TensorView one(static_cast<char*>(alone.view().data()) + token * 2 * 72 * bit_size(dtype) / 8, dtype, "SHD",
                               {1, 2, 72});
          turn(one, rotation, {.position_ids = ConstTensorView(&ids[static_cast<std::size_t>(token)], "S", {1})}, {});
        }
        EXPECT_EQ(all.values(), alone.values());
      }
    }
  }
}

TEST(RotateMemory, OfNoRowsIsNotRead) {
  const Rotation rotation = rotation_of(Pairing::half, 10, 10);
  const GuardedPages nothing(0);
  const TensorView x(nothing.at_end(), DType::f32, "BSHD", {0, 100, 2, 10});
  rotate(x, rotation, {.position_ids = ConstTensorView(static_cast<std::int64_t*>(nothing.at_end()), "BS", {0, 100})});
  rotate(x, rotation, {.offsets = ConstTensorView(static_cast<std::int64_t*>(nothing.at_end()), "B", {0})});
}

}  // namespace
}  // namespace rotary
