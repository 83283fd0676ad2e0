// ROTARY_ISA names an instruction set that no machine has: every door says so, and no kernel ends the process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "rotary/attention.hpp"
#include "rotary/isa.hpp"
#include "rotary/precision.hpp"
#include "rotary/rotate.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

template <class Call>
void expect_unsupported(const Call& call) {
  const std::string sentence = error_sentence(ErrorCode::unsupported, call);
  EXPECT_EQ(sentence.rfind("ROTARY_ISA: must name an instruction set of this machine (scalar", 0), 0u) << sentence;
}

TEST(WrongIsa, IsRefusedByEveryDoorToTheKernels) {
  const Rotation rotation({.head_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1, 0.01}});
  float x[8] = {}, y[8] = {};
  double wide[8] = {};
  const TensorView q(x, "SHD", {2, 1, 4}), k(y, "SHD", {2, 1, 4}), in_double(wide, "SHD", {2, 1, 4});
  const double position = 1;
  const float cos[] = {1, 1, 1, 1}, sin[] = {0, 0, 0, 0};
  const AngleTable given = AngleTable::given(rotation, {cos, "SD", {2, 2}}, {sin, "SD", {2, 2}});

  expect_unsupported([] { active_isa(); });
  expect_unsupported([&] { angles(rotation, &position, x, y); });
  expect_unsupported([&] { AngleTable::build(rotation, 0, 3); });
  expect_unsupported([&] { rotate(q, k, rotation); });
  expect_unsupported([&] { rotate(q, rotation); });
  expect_unsupported([&] { rotate(q, rotation, {}, {.table = &given}); });
  expect_unsupported([&] { rotate(q, rotation, {}, {.precision = Precision::transformers}); });
  expect_unsupported([&] { rotate_to(q, k, rotation); });
  expect_unsupported([&] { rotate(in_double, rotation); });
  expect_unsupported([&] { unrotate(q, rotation); });
  expect_unsupported([&] { rotate_backward(q, rotation); });
  expect_unsupported([&] { shift(q, rotation, 1); });
  expect_unsupported([&] { precision_report(rotation, {1}); });
  float out[8] = {};
  expect_unsupported([&] { attention(q, k, k, TensorView(out, "SHD", {2, 1, 4})); });
  expect_unsupported([&] { attention(q, k, k, TensorView(out, "SHD", {2, 1, 4}), {.rotation = &rotation}); });
}

}  // namespace
}  // namespace rotary

int main(int argc, char** argv) {  // not support/main.cc, which stops at an instruction set that is not there
  ::setenv("ROTARY_ISA", "sse3", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
