// Gradients against those of another implementation; the README of tests/data/attention says which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rotary/attention_backward.hpp"
#include "support/copied.h"
#include "support/golden_attention.h"

namespace rotary {
namespace {

const std::string folder = ROTARY_TEST_DATA "/attention/";

/// Relative to the largest entry, or to 1: what rounding costs in float32, u being its unit roundoff.
///
///     A score s is a sum of head_dim products. Its partial sums grow to s, so that their errors, at random, add up to
///     u s sqrt(head_dim) / 3; without fma those of the products come on top, and are less. Forward and backward pass sum in
///     orders of their own: the difference of a score and lse, which is a weight's relative error, is off by at most
///     u s sqrt(head_dim). What keeps a weight has a score near lse, so |lse| stands for |s|.
///     A sum of n weighted products is off by u sqrt(n), of the result and in its terms: out, delta, their difference, dscore.
double float32_tolerance(const GoldenCase& golden) {
  const double score = largest(copied(golden.lse_view("lse"), DType::f64).values());
  const ConstTensorView &q = golden.q, &k = golden.k, &v = golden.v;
  const char tokens = golden.packed ? 'T' : 'S';
  const std::int64_t terms = std::max({q.size(tokens) * (q.size('H') / k.size('H')), k.size(tokens), v.size('D')});
  return 0x1p-24 * (score * std::sqrt(static_cast<double>(q.size('D'))) + 4 * std::sqrt(static_cast<double>(terms)));
}

/// In 16 bits what rounding q, k, v, dout and the results alone costs, 2e-3 and 1.5e-2 (large_scores 7e-2 and 0.1), and as much
/// again, because out is rounded before delta is taken of it.
double tolerance(DType dtype, const std::string& name, const GoldenCase& golden) {
  const bool large = name == "large_scores";
  switch (dtype) {
    case DType::f64: return name == "offset_100000" ? 1e-10 : 1e-11;
    case DType::f32: return float32_tolerance(golden);
    case DType::f16: return large ? 0.14 : 4e-3;
    default: return large ? 0.2 : 3e-2;
  }
}

TEST(AttentionBackwardGolden, AgreesWithFloat64OnEveryCase) {
  std::ifstream list(folder + "cases.json");
  const nlohmann::json cases = nlohmann::json::parse(list).at("cases");
  EXPECT_EQ(cases.size(), 35u);
  for (const nlohmann::json& c : cases) {
    const std::string name = c.at("name");
    const TensorFile file((folder + name + ".npz").c_str());
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const GoldenCase golden(file, c, dtype);
      const TestTensor dout = copied(golden.view("dout"), dtype);
      const auto like = [&](const TestTensor& x) { return TestTensor(dtype, x.view().axes(), x.view().shape()); };
      const TestTensor dq = like(golden.q), dk = like(golden.k), dv = like(golden.v);
      attention(golden.q, golden.k, golden.v, golden.out, golden.options);
      const TestTensor dsinks(dtype, "H", {golden.q.view().size('H')});
      AttentionGradients gradients{.q = dq, .k = dk, .v = dv};
      if (golden.has("dsinks")) gradients.sinks = dsinks;
      attention_backward(golden.q, golden.k, golden.v, golden.out, dout, gradients, golden.options,
                         golden.has("dlse") ? golden.lse_view("dlse") : ConstTensorView());
      const auto expect = [&](const TestTensor& found, const char* what) {
        const bool of_sinks = &found == &dsinks;
        const std::vector<double> expected =
            copied(of_sinks ? file.at(what).view("H") : golden.view(what), DType::f64).values();
        EXPECT_LE(largest_difference(found.values(), expected),
                  tolerance(dtype, name, golden) * std::max(1.0, largest(expected)))
            << what << " of " << name << " in " << rotary::name(dtype);
      };
      expect(dq, "dq");
      expect(dk, "dk");
      expect(dv, "dv");
      if (gradients.sinks) expect(dsinks, "dsinks");
    }
  }
}

}  // namespace
}  // namespace rotary
