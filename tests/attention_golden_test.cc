// Attention against the results of other implementations. The READMEs of tests/data/attention, tests/data/onnx/attention
// and tests/data/onnxruntime/attention say where the numbers come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/position_bias.hpp"
#include "rotary/tensor_file.hpp"
#include "support/bf16_pairs.h"
#include "support/copied.h"
#include "support/golden_attention.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

using nlohmann::json;

constexpr double infinity = std::numeric_limits<double>::infinity();

const std::string data = ROTARY_TEST_DATA "/";

json cases_in(const std::string& folder, std::size_t count) {
  std::ifstream file(data + folder + "/cases.json");
  const json cases = json::parse(file).at("cases");
  EXPECT_EQ(cases.size(), count);
  return cases;
}

/// `tokens` put after `past`, both "BHSD".
TestTensor joined(const ConstTensorView& past, const ConstTensorView& tokens) {
  const std::int64_t num_past = past.size('S'), num_tokens = tokens.size('S');
  TestTensor all(tokens.dtype(), "BHSD", {tokens.size('B'), tokens.size('H'), num_past + num_tokens, tokens.size('D')});
  const TestTensor before = copied(past, past.dtype()), after = copied(tokens, tokens.dtype());
  for (std::int64_t b = 0; b < tokens.size('B'); ++b) {
    for (std::int64_t h = 0; h < tokens.size('H'); ++h) {
      for (std::int64_t s = 0; s < num_past + num_tokens; ++s) {
        for (std::int64_t d = 0; d < tokens.size('D'); ++d) {
          all.set({b, h, s, d}, s < num_past ? before.at({b, h, s, d}) : after.at({b, h, s - num_past, d}));
        }
      }
    }
  }
  return all;
}

/// What the data's README says can be asked for, relative to the largest entry, or to 1.
double tolerance(DType dtype, const std::string& name) {
  switch (dtype) {
    case DType::f64: return name == "offset_100000" ? 1e-11 : 1e-12;
    case DType::f32: return 2e-6;
    case DType::f16: return name == "large_scores" ? 4e-3 : 2e-3;
    default: return 6e-3;
  }
}

/// With queries, keys and weights rounded to bfloat16, too: the worst of all cases was 7.3e-3, and 1.1e-2 where scores are large.
double tolerance_of_pairs(const std::string& name) { return name == "large_scores" ? 1.5e-2 : 1e-2; }

TEST(AttentionGolden, AgreesWithFloat64OnEveryCase) {
  for (const json& c : cases_in("attention", 35)) {
    const std::string name = c.at("name");
    const TensorFile file((data + "attention/" + name + ".npz").c_str());
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      GoldenCase golden(file, c, dtype);
      double bound = tolerance(dtype, name);
      const auto expect = [&](const TestTensor& found, const ConstTensorView& view, const char* what) {
        const std::vector<double> expected = copied(view, DType::f64).values();
        EXPECT_LE(largest_difference(found.values(), expected), bound * std::max(1.0, largest(expected)))
            << what << " of " << name << " in " << rotary::name(dtype);
      };
      attention(golden.q, golden.k, golden.v, golden.out, golden.options);
      expect(golden.out, golden.view("out"), "out");
      expect(golden.lse, golden.lse_view(golden.has("sinks") ? "lse_with_sink" : "lse"), "lse");
      if (golden.has("sinks")) {
        AttentionOptions without_sinks = golden.options;
        without_sinks.sinks = {};
        attention(golden.q, golden.k, golden.v, golden.out, without_sinks);
        expect(golden.lse, golden.lse_view("lse"), "lse without sinks");
      }
      if (!may_multiply_pairs(dtype)) continue;
      golden.options.lse = {};
      bound = tolerance_of_pairs(name);
      attention(golden.q, golden.k, golden.v, golden.out, golden.options);
      expect(golden.out, golden.view("out"), "out without lse");
    }
  }
}

// ---- the ONNX standard's own cases of Attention ----

/// A tensor of an ONNX case: bfloat16 is stored as uint16 there. Three axes: batch, length, heads side by side.
ConstTensorView onnx_view(const TensorFile& file, const json& c, const std::string& formal, std::int64_t num_heads) {
  const StoredTensor& stored = file.at(formal.c_str());
  const DType dtype = c.at("dtypes").at(formal) == "bfloat16" ? DType::bf16 : stored.dtype;
  if (stored.shape.size() == 4) return ConstTensorView(stored.data, dtype, "BHSD", stored.shape);
  const std::int64_t batch = stored.shape[0], length = stored.shape[1];
  return ConstTensorView(stored.data, dtype, "BSHD", {batch, length, num_heads, stored.shape[2] / num_heads});
}

/// The mask of a case in full: ONNX aligns its axes at the right, pads a short one with "not seen", and takes a boolean one
/// as "may be seen". Keys from num_given on are not seen.
TestTensor onnx_mask(const TensorFile& file, const json& c, std::int64_t batch, std::int64_t heads, std::int64_t n_q,
                     std::int64_t n_k, std::int64_t num_given) {
  TestTensor full(DType::f64, "BHQK", {batch, heads, n_q, n_k});
  full.fill(0);
  std::optional<TestTensor> mask;
  if (c.at("inputs").contains("attn_mask")) {
    const StoredTensor& stored = file.at("attn_mask");
    const char* const axes[] = {"", "K", "QK", "HQK", "BHQK"};
    const DType dtype = c.at("dtypes").at("attn_mask") == "bfloat16" ? DType::bf16 : stored.dtype;
    mask.emplace(copied(ConstTensorView(stored.data, dtype, axes[stored.shape.size()], stored.shape), DType::f64));
  }
  const auto index = [&](char axis, std::int64_t i) {
    return mask->view().size(axis) > 1 ? i * mask->view().stride(axis) : 0;
  };
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < n_q; ++i) {
        for (std::int64_t j = 0; j < n_k; ++j) {
          double value = 0;
          if (mask && j >= mask->view().size('K')) value = -infinity;
          else if (mask)
            value = load_element(DType::f64, mask->view().data(),
                                 index('B', b) + index('H', h) + index('Q', i) + index('K', j));
          if (j >= num_given) value = -infinity;
          full.set({b, h, i, j}, value);
        }
      }
    }
  }
  return full;
}

/// Keys or values "BHSD", the last ones left out, or zeros added.
TestTensor of_length(const TestTensor& tokens, std::int64_t length) {
  const TensorView& x = tokens.view();
  if (length <= x.size('S')) return copied(x.slice('S', 0, length), x.dtype());
  TestTensor zeros(x.dtype(), "BHSD", {x.size('B'), x.size('H'), length - x.size('S'), x.size('D')});
  return joined(x, zeros.fill(0));
}

TEST(AttentionGolden, AgreesWithOnnx) {
  for (const json& c : cases_in("onnx/attention", 74)) {
    const std::string name = c.at("name");
    const TensorFile file((data + "onnx/attention/" + name + ".npz").c_str());
    const json& attributes = c.at("attributes");
    const ConstTensorView q = onnx_view(file, c, "Q", attributes.value("q_num_heads", 0));
    const ConstTensorView v_given = onnx_view(file, c, "V", attributes.value("kv_num_heads", 0));
    TestTensor k = copied(onnx_view(file, c, "K", attributes.value("kv_num_heads", 0)).permuted("BHSD"), q.dtype());
    TestTensor v = copied(v_given.permuted("BHSD"), q.dtype());
    const ConstTensorView y = onnx_view(file, c, "Y", attributes.value("q_num_heads", 0));
    std::int64_t past = 0;
    if (c.at("inputs").contains("past_key")) {
      past = file.at("past_key").shape[2];
      k = joined(file.at("past_key").view("BHSD"), k);
      v = joined(file.at("past_value").view("BHSD"), v);
    }
    const bool causal = attributes.value("is_causal", 0) != 0;
    const bool by_length = c.at("inputs").contains("nonpad_kv_seqlen");
    const bool top_left = causal && !by_length && past == 0, bottom_right = causal && !top_left;
    // Queries stand after the past. With keys up to the last query, hidden where none is given, that is bottom_right.
    const std::int64_t heads = q.size('H'), n_q = q.size('S'), num_given = k.view().size('S');
    const std::int64_t n_k = causal && past != 0 ? past + n_q : num_given;
    k = of_length(k, n_k);
    v = of_length(v, n_k);
    const TestTensor mask = onnx_mask(file, c, q.size('B'), heads, n_q, n_k, num_given);

    TestTensor out(q.dtype(), "BHSD", {q.size('B'), heads, n_q, v.view().size('D')});
    for (std::int64_t b = 0; b < q.size('B'); ++b) {
      const std::int64_t length = by_length ? static_cast<const std::int64_t*>(file.at("nonpad_kv_seqlen").data)[b] : n_k;
      const auto row = [&](const auto& x) { return x.slice('B', b, b + 1); };
      attention(row(q), row(k.view()).slice('S', 0, length), row(v.view()).slice('S', 0, length), row(out.view()),
                {.causal = top_left       ? Causal::top_left
                           : bottom_right ? Causal::bottom_right
                                          : Causal::none,
                 .window_left = attributes.value("left_window_size", -1),
                 .window_right = attributes.value("right_window_size", -1),
                 .scale = attributes.value("scale", 0.0),
                 .softcap = attributes.value("softcap", 0.0),
                 .attn_mask = row(mask.view()).slice('K', 0, length)});
    }

    // What ONNX asks, and for 16 bits room for the rounding at every step that its expected values carry: one unit in the
    // last place more (its README says up to 5.1e-4 and 5.0e-3 from float64).
    const double rtol = c.at("rtol"), atol = q.dtype() == DType::f16 ? 1e-3 : static_cast<double>(c.at("atol"));
    const std::vector<double> expected = copied(y.permuted("BHSD"), DType::f64).values(), actual = out.values();
    ASSERT_EQ(actual.size(), expected.size()) << name;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(std::abs(actual[i] - expected[i]), atol + rtol * std::abs(expected[i])) << name << " " << i;
    }
  }
}

// ---- ONNX Runtime's GroupQueryAttention ----

TEST(AttentionGolden, AgreesWithOnnxRuntimesGroupQueryAttention) {
  for (const json& c : cases_in("onnxruntime/attention", 18)) {
    const std::string name = c.at("name");
    const TensorFile file((data + "onnxruntime/attention/" + name + ".npz").c_str());
    const json& attributes = c.at("attributes");
    const std::int64_t heads = attributes.at("num_heads"), kv_heads = attributes.at("kv_num_heads");
    const StoredTensor& query = file.at("query");
    const bool packed = file.find("key") == nullptr;
    const std::int64_t batch = query.shape[0], length = query.shape[1];
    const std::int64_t head_dim = query.shape[2] / (packed ? heads + 2 * kv_heads : heads);

    const auto split = [&](const char* which, std::int64_t count) {
      return ConstTensorView(file.at(which).data, query.dtype, "BSHD", {batch, length, count, head_dim});
    };
    const ConstTensorView all = split("query", packed ? heads + 2 * kv_heads : heads);
    const ConstTensorView q = all.slice('H', 0, heads);
    const ConstTensorView new_k = packed ? all.slice('H', heads, heads + kv_heads) : split("key", kv_heads);
    const ConstTensorView new_v =
        packed ? all.slice('H', heads + kv_heads, heads + 2 * kv_heads) : split("value", kv_heads);
    const ConstTensorView expected = split("output", heads);

    const std::int64_t rotary_dim = 2 * file.at("cos_cache").shape[1];
    const Rotation rotation({.head_dim = head_dim,
                             .rotary_dim = rotary_dim,
                             .pairing_in = attributes.value("rotary_interleaved", 0) ? Pairing::interleaved : Pairing::half,
                             .inv_freq = default_frequencies(10000, rotary_dim).inv_freq});
    TestTensor out(query.dtype, "BSHD", {batch, length, heads, head_dim});
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t total = static_cast<const std::int32_t*>(file.at("seqlens_k").data)[b] + 1;
      const std::int64_t past = file.find("past_key") != nullptr ? total - length : 0;
      const std::int64_t fresh = total - past;  // a shorter sequence of a prefill is padded at its end
      const auto row = [&](const auto& x) { return x.slice('B', b, b + 1); };
      TestTensor k = copied(row(new_k).slice('S', 0, fresh).permuted("BHSD"), query.dtype);
      TestTensor v = copied(row(new_v).slice('S', 0, fresh).permuted("BHSD"), query.dtype);
      if (past > 0) {
        k = joined(row(file.at("past_key").view("BHSD")).slice('S', 0, past), k);
        v = joined(row(file.at("past_value").view("BHSD")).slice('S', 0, past), v);
      }
      // Keys of the past are rotated already: at position 0 they stay as they are.
      std::vector<std::int64_t> q_ids, k_ids(static_cast<std::size_t>(past), 0);
      for (std::int64_t i = 0; i < fresh; ++i) {
        const bool given = file.find("position_ids") != nullptr;
        q_ids.push_back(given ? static_cast<const std::int64_t*>(file.at("position_ids").data)[b * length + i] : past + i);
        k_ids.push_back(q_ids.back());
      }
      AttentionOptions options{.rotation = &rotation,
                               .q_positions = {.position_ids = ConstTensorView(q_ids.data(), "S", {fresh})},
                               .k_positions = {.position_ids = ConstTensorView(k_ids.data(), "S", {total})},
                               .causal = Causal::bottom_right,
                               .window_left = attributes.value("local_window_size", 0) - 1,  // counts the query's own key
                               .scale = attributes.value("scale", 0.0),
                               .softcap = attributes.value("softcap", 0.0)};
      const std::vector<float> zeros(static_cast<std::size_t>(heads));  // smooth softmax: 1 more in the sum
      if (attributes.value("smooth_softmax", 0) != 0) options.sinks = ConstTensorView(zeros.data(), "H", {heads});
      if (file.find("head_sink") != nullptr) options.sinks = file.at("head_sink").view("H");
      if (file.find("attention_bias") != nullptr) options.attn_mask = file.at("attention_bias").view("BHQK");
      attention(row(q).slice('S', 0, fresh), k, v, row(out.view()).slice('S', 0, fresh), options);

      const auto rows = [&](const ConstTensorView& x) { return copied(row(x).slice('S', 0, fresh), DType::f64).values(); };
      EXPECT_LE(largest_difference(rows(out.view()), rows(expected)), query.dtype == DType::f16 ? 1.5e-3 : 1e-6)
          << name << ", batch row " << b;
    }
  }
}

// ---- two layers of a real model ----

/// The length of every pair of every row of a "BHSD" tensor with one batch row: [head][token][pair].
std::vector<double> pair_lengths(const TestTensor& x) {
  const std::vector<double> numbers = x.values();
  const std::size_t num_pairs = static_cast<std::size_t>(x.view().size('D')) / 2;
  std::vector<double> lengths;
  for (std::size_t row = 0; row < numbers.size(); row += 2 * num_pairs) {
    for (std::size_t m = 0; m < num_pairs; ++m)
      lengths.push_back(std::hypot(numbers[row + m], numbers[row + m + num_pairs]));
  }
  return lengths;
}

/// How far float32 may take transformers from the exact result, for every row [head][token]: a bound from what it computes.
///
///     inv_freq and the angle p f are float32: off by 3 roundings, below p f 2^-22. cos and sin are off by that and an ulp,
///     the rotation rounds two products and a sum: a pair of length r moves by at most r (p f 2^-22 + 2^-21).
///     A score is at most the sum over pairs of |q| |k|, moved in both, and rounded 64 times more: 2^-18.
///     Weights move by at most twice what scores move, and the sums round at most 173 times, once a key: 2^-16.
std::vector<double> float32_bounds(const TestTensor& q, const TestTensor& k, const TestTensor& v,
                                   const Rotation& rotation) {
  const auto size = [](const TestTensor& x, char axis) { return static_cast<std::size_t>(x.view().size(axis)); };
  const std::size_t heads = size(q, 'H'), group = heads / size(k, 'H'), length = size(q, 'S'), num_pairs = size(q, 'D') / 2;
  const std::vector<double> q_lengths = pair_lengths(q), k_lengths = pair_lengths(k);
  const double largest_value = largest(v.values());
  std::vector<double> bounds;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < length; ++i) {
      double most_moved = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double moved = 0;
        for (std::size_t m = 0; m < num_pairs; ++m) {
          const double relative = static_cast<double>(i + j) * rotation.inv_freq()[m] * 0x1p-22 + 2 * 0x1p-21 + 0x1p-18;
          moved +=
              q_lengths[(h * length + i) * num_pairs + m] * k_lengths[(h / group * length + j) * num_pairs + m] * relative;
        }
        most_moved = std::max(most_moved, moved / 8);
      }
      bounds.push_back((2 * most_moved + 0x1p-16) * largest_value);
    }
  }
  return bounds;
}

TEST(AttentionGolden, ComputesWhatSmolLM2ComputedWithinFloat32Rounding) {
  const auto rotation = [](Pairing pairing) {
    return Rotation({.head_dim = 64, .pairing_in = pairing, .inv_freq = default_frequencies(100000, 64).inv_freq});
  };
  for (const char* layer : {"layer-00", "layer-15"}) {
    const TensorFile file((data + "smollm2/" + layer + ".safetensors").c_str());
    const auto read = [&](const char* name) { return copied(file.at(name).view("BHSD"), DType::f32); };
    const TestTensor q = read("q"), k = read("k"), v = read("v"), expected = read("attn_out");
    TestTensor out(DType::f32, "BHSD", expected.view().shape());
    const auto attend = [&](const Rotation& turn) {
      attention(q, k, v, out, {.rotation = &turn, .causal = Causal::top_left});
      return out.values();
    };
    const std::vector<double> right = attend(rotation(Pairing::half)), wrong = attend(rotation(Pairing::interleaved));
    const std::vector<double> bounds = float32_bounds(q, k, v, rotation(Pairing::half)), theirs = expected.values();
    std::size_t right_outside = 0, wrong_outside = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      right_outside += !(std::abs(right[i] - theirs[i]) <= bounds[i / 64]);
      wrong_outside += !(std::abs(wrong[i] - theirs[i]) <= bounds[i / 64]);
    }
    EXPECT_EQ(right_outside, 0u) << layer;
    EXPECT_GT(wrong_outside, theirs.size() / 2) << layer << ": the bound is tight enough to tell the pairing";
    EXPECT_LE(largest_difference(right, theirs), 5e-6) << layer << ": 5.3e-7 and 2.4e-6 were measured";
  }
}

}  // namespace
}  // namespace rotary
