// Linear attention against the results of another implementation. tests/data/linear/README.md says where they come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/linear_attention.hpp"
#include "rotary/tensor_file.hpp"
#include "support/file_bytes.h"
#include "support/stored_values.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

using nlohmann::json;

const std::string folder = ROTARY_TEST_DATA "/linear/";

std::vector<json> stored_cases() { return json::parse(file_bytes(folder + "cases.json")).at("cases"); }

/// Those that begin with nothing summed.
std::vector<json> all_cases() {
  std::vector<json> cases = stored_cases();
  std::erase_if(cases, [](const json& c) { return c.at("name") == "backward_roformer_state"; });
  return cases;
}

json case_named(const std::string& name) {
  for (const json& c : stored_cases()) {
    if (c.at("name") == name) return c;
  }
  throw std::runtime_error("no case " + name);
}

TestTensor in_dtype(const StoredTensor& stored, DType dtype, Axes axes) {
  TestTensor tensor(dtype, axes, stored.shape);
  const std::vector<double> values = stored_values(stored);
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, values[static_cast<std::size_t>(i)]);
  return tensor;
}

/// A stored case, ready to be computed in some dtype.
class GoldenCase {
 public:
  GoldenCase(const json& description, DType dtype)
      : file_((folder + description.at("name").get<std::string>() + ".npz").c_str()),
        q_(in_dtype(file_.at("q"), dtype, "BHSD")),
        k_(in_dtype(file_.at("k"), dtype, "BHSD")),
        v_(in_dtype(file_.at("v"), dtype, "BHSD")),
        out_(dtype, "BHSD", file_.at("out").shape) {
    const json& how = description.at("options");
    const std::string method = how.at("method");
    const std::int64_t width = q_.view().size('D');
    options_.is_causal = how.at("is_causal");
    if (file_.find("key_padding_mask") != nullptr) options_.key_padding_mask = file_.at("key_padding_mask").view("BS");
    set_features(method == "cosformer" ? "relu" : how.at("feature_map"), how.value("feature_epsilon", 0.0));
    if (!how.at("rope").is_null()) {
      const json& rope = how.at("rope");
      rotation_.emplace(RotationSpec{.head_dim = width,
                                     .rotary_dim = rope.at("rotary_dim"),
                                     .pairing_in = rope.at("pairing") == "half" ? Pairing::half : Pairing::interleaved,
                                     .inv_freq = default_frequencies(rope.at("base"), rope.at("rotary_dim")).inv_freq});
    }
    if (method == "cosformer") rotation_ = cosformer_rotation(width, how.at("M"));
    if (method == "cosformer") options_.rotate = Rotate::lifted;
    if (method == "favor" || method == "rotate_then_map") options_.rotate = Rotate::before_map;
    if (method == "cosformer" || method == "map_then_rotate_both") options_.normalizer = Normalizer::rotated;
    if (rotation_) {
      options_.rotation = &*rotation_;
      options_.q_positions = options_.k_positions = {.offset = how.at("start_position")};
    }
  }
  GoldenCase(const GoldenCase&) = delete;

  LinearAttentionReport attend(std::int64_t chunk_size) {
    options_.chunk_size = chunk_size;
    return linear_attention(q_, k_, v_, out_, options_);
  }

  /// Only the tokens from `begin` to `end`.
  void attend_part(std::int64_t begin, std::int64_t end, LinearState& state) {
    LinearAttentionOptions part = options_;
    part.state = &state;
    part.q_positions.offset += begin;
    part.k_positions.offset += begin;
    linear_attention(q_.view().slice('S', begin, end), k_.view().slice('S', begin, end), v_.view().slice('S', begin, end),
                     out_.view().slice('S', begin, end), part);
  }

  void expect_golden(double bound, const std::string& about) const {
    const std::vector<double> expected = stored_values(file_.at("out"));
    const std::vector<double> condition =
        file_.find("condition") != nullptr ? stored_values(file_.at("condition")) : std::vector<double>{};
    double largest = 1;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    const auto width = static_cast<std::size_t>(out_.view().size('D'));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double factor = condition.empty() ? 1 : condition[i / width];
      ASSERT_NEAR(out_[static_cast<std::int64_t>(i)], expected[i], bound * largest * factor) << about << ", element " << i;
    }
  }

  /// Gradients, with those of the state where the case begins with one.
  void expect_golden_gradients(DType dtype, double bound, const std::string& about) {
    const TestTensor dout = in_dtype(file_.at("dout"), dtype, "BHSD");
    TestTensor dq(dtype, "BHSD", q_.view().shape()), dk(dtype, "BHSD", k_.view().shape()),
        dv(dtype, "BHSD", v_.view().shape());
    LinearGradients gradients{dq, dk, dv};
    LinearState state, state_gradient;  // of the dtype in which the call computes
    LinearAttentionOptions options = options_;
    if (file_.find("S0") != nullptr) {
      begin(state);
      options.state = &state;
      gradients.state = &state_gradient;
    }
    linear_attention_backward(q_, k_, v_, dout, gradients, options);
    expect_near(dq.values(), "dq", bound, about);
    expect_near(dk.values(), "dk", bound, about);
    expect_near(dv.values(), "dv", bound, about);
    if (options.state == nullptr) return;
    expect_near(values(state_gradient.numerator()), "dS0", bound, about);
    expect_near(values(state_gradient.denominator()), "dz0", bound, about);
    expect_near(values(state.numerator()), "S0", 1e-15, about + ": the state is left as it is");
    linear_attention(q_, k_, v_, out_, options);
    expect_near(out_.values(), "out", bound, about);
  }

  const TensorFile& file() const { return file_; }
  std::int64_t length() const { return q_.view().size('S'); }

 private:
  /// The stored state: a call without tokens gives it its shape.
  void begin(LinearState& state) {
    LinearAttentionOptions empty = options_;
    empty.state = &state;
    const auto none = [](const TensorView& x) { return x.slice('S', 0, 0); };
    linear_attention(none(q_), none(k_), none(v_), none(out_), empty);
    const auto fill = [&](const TensorView& to, const char* name) {
      const std::vector<double> from = stored_values(file_.at(name));
      for (std::size_t i = 0; i < from.size(); ++i)
        store_element(to.dtype(), to.data(), static_cast<std::int64_t>(i), from[i]);
    };
    fill(state.numerator(), "S0");
    fill(state.denominator(), "z0");
  }

  static std::vector<double> values(const TensorView& dense) {
    std::vector<double> all;
    for (std::int64_t i = 0; i < dense.num_elements(); ++i) all.push_back(load_element(dense.dtype(), dense.data(), i));
    return all;
  }

  void expect_near(const std::vector<double>& actual, const char* member, double bound, const std::string& about) const {
    const std::vector<double> expected = stored_values(file_.at(member));
    ASSERT_EQ(actual.size(), expected.size()) << about << ' ' << member;
    double largest = 1;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], bound * largest) << about << ", " << member << ' ' << i;
    }
  }

  void set_features(const std::string& map, double epsilon) {
    FeatureMap& to = options_.feature_map;
    to.epsilon = epsilon;
    if (map == "identity") to.features = Features::identity;
    else if (map == "relu") to.features = Features::relu;
    else if (map == "elu_plus_one") to.features = Features::elu_plus_1;
    else if (map == "favor_relu") to.features = Features::favor_relu;
    else if (map == "favor_positive") to.features = Features::favor_plus;
    else ADD_FAILURE() << map;
    if (map.starts_with("favor")) to.projection = file_.at("projection").view("ND");
  }

  TensorFile file_;
  TestTensor q_, k_, v_, out_;
  std::optional<Rotation> rotation_;
  LinearAttentionOptions options_;
};

/// What the data's README says can be asked for, relative to the largest entry, or to 1. In float32 the exponents of
/// favor_large_norms, about 100, are known within 100 * 2^-24 * 4: 2.4e-5 of a weight.
double tolerance(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::f64: return name == "state_roformer" ? 1e-11 : 1e-12;  // at 100,000 an angle is known to 1.5e-11
    case DType::f32: return name == "favor_large_norms" ? 2.4e-5 : 2e-6;
    case DType::f16: return 2e-3;
    default: return 1.5e-2;
  }
}

TEST(LinearAttentionGolden, AgreesWithTheTableOfWeightsOnEveryCaseAtEveryChunkSize) {
  EXPECT_EQ(all_cases().size(), 19U);
  for (const json& c : all_cases()) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      GoldenCase golden(c, dtype);
      for (const std::int64_t chunk_size : {1, 4, 31, 32, 33, 97}) {
        golden.attend(chunk_size);
        golden.expect_golden(tolerance(dtype, c.at("name")), c.at("name").get<std::string>() + " in " + name(dtype) +
                                                                 ", chunks of " + std::to_string(chunk_size));
      }
    }
  }
}

TEST(LinearAttentionGolden, TakesSixteenBitInputsWithSumsInFloat32_A3_P30) {
  for (const json& c : all_cases()) {
    const std::string name = c.at("name");
    if (name.starts_with("both_") || name == "favor_large_norms") continue;  // rounded inputs are multiplied by 28 and more
    for (const DType dtype : {DType::f16, DType::bf16}) {
      GoldenCase golden(c, dtype);
      golden.attend(32);
      golden.expect_golden(tolerance(dtype, name), name + " in " + rotary::name(dtype));
    }
  }
}

TEST(LinearAttentionGolden, CarriesTheStateOverEverySplitPoint_P3) {
  for (const json& c : all_cases()) {
    if (!c.at("options").at("is_causal")) continue;
    if (c.at("name") == "roformer_left_padding") continue;  // its mask would have to be split, too
    for (const DType dtype : {DType::f64, DType::f32}) {
      GoldenCase golden(c, dtype);
      for (std::int64_t split = 0; split <= golden.length(); ++split) {
        LinearState state;
        golden.attend_part(0, split, state);
        golden.attend_part(split, golden.length(), state);
        golden.expect_golden(tolerance(dtype, c.at("name")),
                             c.at("name").get<std::string>() + ", split at " + std::to_string(split));
      }
    }
  }
}

TEST(LinearAttentionGolden, LeavesTheSumsThatTheDefinitionHas) {
  for (const json& c : all_cases()) {
    if (!c.contains("boundary") || c.at("boundary").is_null()) continue;
    GoldenCase golden(c, DType::f64);
    LinearState state;
    golden.attend_part(0, c.at("boundary"), state);
    const std::vector<double> S = stored_values(golden.file().at("S")), z = stored_values(golden.file().at("z"));
    const TensorView numerator = state.numerator(), denominator = state.denominator(), log_scale = state.log_scale();
    ASSERT_EQ(numerator.num_elements(), static_cast<std::int64_t>(S.size()));
    ASSERT_EQ(denominator.num_elements(), static_cast<std::int64_t>(z.size()));
    const bool favor = c.at("options").at("method") == "favor";
    const auto factor = [&](std::int64_t head) {
      if (!favor) return 1.0;
      return std::exp(load_element(DType::f64, log_scale.data(), head)) /
             std::sqrt(static_cast<double>(denominator.size('N')));
    };
    const auto per_head = static_cast<std::int64_t>(numerator.size('N') * numerator.size('D'));
    for (std::int64_t i = 0; i < numerator.num_elements(); ++i) {
      ASSERT_NEAR(load_element(DType::f64, numerator.data(), i) * factor(i / per_head), S[static_cast<std::size_t>(i)],
                  1e-9)
          << c.at("name") << " S " << i;
    }
    for (std::int64_t i = 0; i < denominator.num_elements(); ++i) {
      ASSERT_NEAR(load_element(DType::f64, denominator.data(), i) * factor(i / denominator.size('N')),
                  z[static_cast<std::size_t>(i)], 1e-12)
          << c.at("name") << " z " << i;
    }
  }
}

TEST(LinearAttentionGolden, HasTheGradientsOfTheTable_P27) {
  int count = 0;
  for (const json& c : stored_cases()) {
    const std::string name = c.at("name");
    if (!name.starts_with("backward_")) continue;
    ++count;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      GoldenCase golden(c, dtype);
      // In float32 sums are made token by token: a little more than the table loses.
      const double bound = dtype == DType::f32 ? 4e-6 : tolerance(dtype, name);
      if (bit_size(dtype) == 16 && golden.file().find("S0") != nullptr) continue;  // its state is not rounded
      golden.expect_golden_gradients(dtype, bound, name + " in " + rotary::name(dtype));
    }
  }
  EXPECT_EQ(count, 4);
}

TEST(LinearAttentionGolden, ReportsNegativeDenominatorsAndTheirCondition) {
  const auto report_of = [](const char* name) { return GoldenCase(case_named(name), DType::f64).attend(32); };
  const LinearAttentionReport relu = report_of("both_full_relu"), identity = report_of("both_full_identity");
  EXPECT_EQ(relu.num_rows, 48);
  EXPECT_EQ(relu.num_negative_denominators, 3);
  EXPECT_GE(relu.worst_condition, 27.78);  // the reported one is a bound
  EXPECT_LE(relu.worst_condition, 4 * 27.78);
  EXPECT_EQ(identity.num_negative_denominators, 19);
  EXPECT_GE(identity.worst_condition, 742.5);
  const LinearAttentionReport roformer = report_of("roformer_relu");
  EXPECT_EQ(roformer.num_zero_rows, 1);
  EXPECT_EQ(roformer.num_negative_denominators, 0);
  EXPECT_EQ(roformer.worst_condition, 1);
}

}  // namespace
}  // namespace rotary
