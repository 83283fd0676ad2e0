// rotate against what other implementations computed. The READMEs beside the data say who and how.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "rotary/tensor_file.hpp"
#include "support/plain_rotation.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

using nlohmann::json;

const std::string data = ROTARY_TEST_DATA "/";

Rotation smollm2(Pairing pairing) {
  return Rotation({.head_dim = 64, .pairing_in = pairing, .inv_freq = default_frequencies(1e5, 64).inv_freq});
}

/// A tensor of our own with the numbers of a file's.
std::vector<float> copied(const StoredTensor& stored) {
  const auto* values = static_cast<const float*>(stored.data);
  return {values, values + stored.num_bytes / static_cast<std::int64_t>(sizeof(float))};
}

TensorView view(std::vector<float>& values, const StoredTensor& like) {
  return {values.data(), DType::f32, "BHSD", like.shape};
}

std::int64_t num_different_bits(const std::vector<float>& actual, const StoredTensor& expected) {
  const std::vector<float> other = copied(expected);
  EXPECT_EQ(actual.size(), other.size());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) count += std::memcmp(&actual[i], &other[i], sizeof(float)) != 0;
  return count;
}

TEST(RotateGolden, GivesTransformersBitsWithItsOwnTables) {
  for (const char* layer : {"layer-00", "layer-15"}) {
    const TensorFile file((data + "smollm2/" + layer + ".safetensors").c_str());
    const Rotation rotation = smollm2(Pairing::half);
    const AngleTable table = AngleTable::given(rotation, file.at("cos").view("BSD"), file.at("sin").view("BSD"));
    std::vector<float> q = copied(file.at("q")), k = copied(file.at("k"));
    rotate(view(q, file.at("q")), view(k, file.at("k")), rotation, {},
           {.precision = Precision::transformers, .table = &table});
    EXPECT_EQ(num_different_bits(q, file.at("q_rot")), 0) << layer;
    EXPECT_EQ(num_different_bits(k, file.at("k_rot")), 0) << layer;
  }
}

TEST(RotateGolden, GivesLlamaCppsBits) {
  for (const char* layer : {"layer-00.llamacpp", "layer-00.ggml"}) {
    const TensorFile file((data + "smollm2/" + layer + ".safetensors").c_str());
    std::vector<float> q = copied(file.at("q")), k = copied(file.at("k"));
    rotate(view(q, file.at("q")), view(k, file.at("k")), smollm2(Pairing::interleaved),
           {.position_ids = file.at("position_ids").view("BS")}, {.precision = Precision::ggml});
    EXPECT_EQ(num_different_bits(q, file.at("q_rot")), 0) << layer;
    EXPECT_EQ(num_different_bits(k, file.at("k_rot")), 0) << layer;
  }
}

TEST(RotateGolden, IsWithinTheirErrorOfBothByDefault) {
  // Measured against double: transformers 3.4e-5 at most, ggml 3.9e-5, on values up to 11; the exact rotation itself adds
  // 2^-22 of a pair's length.
  struct Case {
    const char* layer;
    Pairing pairing;
    double their_error;
  };
  for (const Case& c : {Case{"layer-00", Pairing::half, 3.5e-5}, Case{"layer-15", Pairing::half, 3.5e-5},
                        Case{"layer-00.ggml", Pairing::interleaved, 4e-5}}) {
    const TensorFile file((data + "smollm2/" + c.layer + ".safetensors").c_str());
    for (const char* name : {"q", "k"}) {
      std::vector<float> x = copied(file.at(name));
      rotate(view(x, file.at(name)), smollm2(c.pairing));
      const std::vector<float> expected = copied(file.at((std::string(name) + "_rot").c_str()));
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(double{x[i]} - double{expected[i]}));
      EXPECT_LE(worst, c.their_error + 16 * 0x1p-22) << c.layer << " " << name;
      EXPECT_GT(worst, 0);
    }
  }
}

TEST(RotateGolden, ShowsTheWrongPairing_L2_L8) {
  const TensorFile file((data + "smollm2/layer-00.safetensors").c_str());
  std::vector<float> q = copied(file.at("q"));
  rotate(view(q, file.at("q")), smollm2(Pairing::interleaved));
  const std::vector<float> expected = copied(file.at("q_rot"));
  double worst = 0;
  for (std::size_t i = 0; i < q.size(); ++i) worst = std::max(worst, std::abs(double{q[i]} - double{expected[i]}));
  EXPECT_GT(worst, 5);
}

// ---- the ONNX standard, ONNX Runtime ----

json cases_in(const std::string& folder, std::size_t count) {
  std::ifstream file(data + folder + "/cases.json");
  const json cases = json::parse(file).at("cases");
  EXPECT_EQ(cases.size(), count);
  return cases;
}

/// Three axes: batch, length, heads side by side.
ConstTensorView heads_of(const StoredTensor& stored, std::int64_t num_heads) {
  if (stored.shape.size() == 4) return stored.view("BHSD");
  return ConstTensorView(stored.data, stored.dtype, "BSHD",
                         {stored.shape[0], stored.shape[1], num_heads, stored.shape[2] / num_heads});
}

/// The case's rotation; frequencies do not matter where there is a table.
Rotation onnx_rotation(const json& c, std::int64_t head_dim, std::int64_t rotary_dim) {
  const bool interleaved = c.at("attributes").value("interleaved", 0) != 0;
  return Rotation({.head_dim = head_dim,
                   .pairing_in = interleaved ? Pairing::interleaved : Pairing::half,
                   .inv_freq = default_frequencies(1e4, rotary_dim).inv_freq});
}

TEST(RotateGolden, AgreesWithOnnx) {
  for (const json& c : cases_in("onnx/rotary_embedding", 7)) {
    const std::string name = c.at("name");
    const TensorFile file((data + "onnx/rotary_embedding/" + name + ".npz").c_str());
    const std::int64_t num_heads = c.at("attributes").value("num_heads", 0);
    const ConstTensorView x = heads_of(file.at("X"), num_heads), y = heads_of(file.at("Y"), num_heads);
    const StoredTensor &cos = file.at("cos_cache"), &sin = file.at("sin_cache");
    const std::int64_t num_pairs = cos.shape.back();

    // cos and sin are random numbers there: a rotation times a length. Take the lengths out, and put them back at the end.
    std::vector<double> unit_cos, unit_sin, lengths;
    for (std::int64_t i = 0; i < cos.num_bytes / 4; ++i) {
      const double u = static_cast<const float*>(cos.data)[i], v = static_cast<const float*>(sin.data)[i];
      lengths.push_back(std::hypot(u, v));
      unit_cos.push_back(u / lengths.back());
      unit_sin.push_back(v / lengths.back());
    }
    const bool by_position = cos.shape.size() == 2;
    const Axes axes = by_position ? "ND" : "BSD";
    const Rotation rotation = onnx_rotation(c, x.size('D'), 2 * num_pairs);
    const AngleTable table =
        AngleTable::given(rotation, {unit_cos.data(), axes, cos.shape}, {unit_sin.data(), axes, cos.shape});

    TestTensor out(DType::f64, "BSHD", {x.size('B'), x.size('S'), x.size('H'), x.size('D')});
    const Positions positions = by_position ? Positions{.position_ids = file.at("position_ids").view("BS")} : Positions{};
    rotate_to(x.permuted("BSHD"), out, rotation, positions, {.table = &table});

    const double rtol = c.at("rtol"), atol = c.at("atol");
    for (std::int64_t b = 0; b < x.size('B'); ++b) {
      for (std::int64_t s = 0; s < x.size('S'); ++s) {
        const std::int64_t token = b * x.size('S') + s;
        const std::int64_t row =
            by_position ? static_cast<const std::int64_t*>(file.at("position_ids").data)[token] : token;
        for (std::int64_t h = 0; h < x.size('H'); ++h) {
          for (std::int64_t j = 0; j < num_pairs; ++j) {
            for (const std::int64_t d : {rotation.pairs_in()[static_cast<std::size_t>(j)].first,
                                         rotation.pairs_in()[static_cast<std::size_t>(j)].second}) {
              out.set({b, s, h, d}, out.at({b, s, h, d}) * lengths[static_cast<std::size_t>(row * num_pairs + j)]);
            }
          }
          for (std::int64_t d = 0; d < x.size('D'); ++d) {
            const double expected = static_cast<const float*>(
                y.data())[b * y.stride('B') + s * y.stride('S') + h * y.stride('H') + d * y.stride('D')];
            EXPECT_NEAR(out.at({b, s, h, d}), expected, atol + rtol * std::abs(expected)) << name;
          }
        }
      }
    }
  }
}

TEST(RotateGolden, AgreesWithOnnxRuntime) {
  for (const json& c : cases_in("onnxruntime/rotary_embedding", 9)) {
    const std::string name = c.at("name");
    const TensorFile file((data + "onnxruntime/rotary_embedding/" + name + ".npz").c_str());
    const StoredTensor& cos = file.at("cos_cache");
    const std::int64_t rotary_dim = 2 * cos.shape[1];
    // Without num_heads the table is as wide as a head.
    const StoredTensor& input = file.at("input");
    const std::int64_t num_heads = c.at("attributes").value("num_heads", input.shape.back() / rotary_dim);
    const ConstTensorView x = heads_of(input, num_heads), expected = heads_of(file.at("output"), num_heads);
    const Rotation rotation = onnx_rotation(c, x.size('D'), rotary_dim);
    const AngleTable table = AngleTable::given(rotation, cos.view("ND"), file.at("sin_cache").view("ND"));

    const StoredTensor& ids = file.at("position_ids");
    Positions positions;
    if (ids.shape.size() == 1) positions.offset = *static_cast<const std::int64_t*>(ids.data);
    else positions.position_ids = ids.view("BS");

    // Once from the operator's own tables, once from the base.
    for (const AngleTable* const given : {&table, static_cast<const AngleTable*>(nullptr)}) {
      TestTensor out(input.dtype, "BSHD", {x.size('B'), x.size('S'), x.size('H'), x.size('D')});
      rotate_to(x, TensorView(out.view()).permuted(x.axes()), rotation, positions, {.table = given});
      const double tolerance = input.dtype == DType::f16 ? 1.5e-3 : 1e-6;
      for (std::int64_t b = 0; b < x.size('B'); ++b) {
        for (std::int64_t s = 0; s < x.size('S'); ++s) {
          for (std::int64_t h = 0; h < x.size('H'); ++h) {
            for (std::int64_t d = 0; d < x.size('D'); ++d) {
              const double value = load_element(input.dtype, expected.data(),
                                                b * expected.stride('B') + s * expected.stride('S') +
                                                    h * expected.stride('H') + d * expected.stride('D'));
              // Two roundings of a float16 table more.
              const double room = given == nullptr && input.dtype == DType::f16 ? 3e-3 : tolerance;
              EXPECT_NEAR(out.at({b, s, h, d}), value, room) << name;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rotary
