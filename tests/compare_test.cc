// compare(): what differs between models, and from which position on. Positions are checked against a walk through all of
// them in long double.
#include "rotary/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/description.h"
#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"

namespace rotary {
namespace {

// ---- models by hand ----------------------------------------------------------------------------------------------------

LayerDescription layer_with(Frequencies frequencies, Pairing pairing = Pairing::half) {
  LayerDescription layer;
  layer.head_dim = 2 * static_cast<std::int64_t>(frequencies.inv_freq.size());
  layer.num_q_heads = 8;
  layer.num_kv_heads = 2;
  layer.softmax_scale = 0.125;
  layer.layout.pairing_in = pairing;
  layer.rule_name = "default";
  layer.rule = std::move(frequencies);
  return layer;
}

LayerDescription layer_without_rotation() {
  LayerDescription layer = layer_with({{1.0, 0.1}});
  layer.turning = Turning::no_rotation;
  layer.reason = "learned positions";
  layer.rule_name = "";
  return layer;
}

ModelDescription description_of(std::vector<LayerDescription> kinds, std::vector<std::size_t> kind_of_layer) {
  ModelDescription model;
  model.model_type = "test";
  model.source = "test.json";
  model.format = "config.json";
  model.max_position_embeddings = 4096;
  model.kinds = std::move(kinds);
  model.kind_of_layer = std::move(kind_of_layer);
  return model;
}

ModelRotations model_of(const LayerDescription& layer, const std::string& format = "config.json") {
  ModelDescription model = description_of({layer}, {0, 0, 0});
  model.format = format;
  return build_model(model);
}

/// The names of the differences of the first group of layers that have an effect.
std::vector<std::string> names(const Comparison& comparison) {
  std::vector<std::string> list;
  for (const Difference& difference : comparison.layers().at(0).differences) {
    if (difference.effect != Effect::nothing) list.push_back(difference.name);
  }
  return list;
}

const Difference& named(const std::vector<Difference>& differences, const std::string& name) {
  for (const Difference& difference : differences) {
    if (difference.name == name) return difference;
  }
  throw std::runtime_error("no difference " + name);
}

using Names = std::vector<std::string>;

TEST(Compare, NamesOfARulesNumbersOnlyThose) {
  LayerDescription a = layer_with({{1.0, 0.1}}), b = layer_with({{1.0, 0.2}});
  a.provenance.add("base", 10000, "a.json: rope_theta");
  b.provenance.add("base", 25, "b.json: rope_theta");
  a.provenance.add("sliding_window_pattern", 6, "a.json: sliding_window_pattern");
  b.provenance.add("sliding_window_pattern", 3, "b.json: sliding_window_pattern");
  EXPECT_EQ(names(compare(model_of(a), model_of(b))), (Names{"base", "inv_freq"}));
}

// ---- the first position ------------------------------------------------------------------------------------------------

struct Turn {
  double inv_freq, amplitude;
};

/// Position by position.
std::int64_t first_position_by_walking(const Turn& a, const Turn& b, std::int64_t most) {
  const long double step = 0x1p-8L * std::max(a.amplitude, b.amplitude);
  for (std::int64_t p = 0; p <= most; ++p) {
    const auto turned = [p](const Turn& turn) {
      return std::polar<long double>(turn.amplitude, static_cast<long double>(p) * turn.inv_freq);
    };
    if (std::abs(turned(a) - turned(b)) > step) return p;
  }
  return -1;
}

std::int64_t first_position_of(const Turn& a, const Turn& b) {
  return compare(model_of(layer_with({{a.inv_freq}, a.amplitude})), model_of(layer_with({{b.inv_freq}, b.amplitude})))
      .first_position();
}

TEST(Compare, FindsTheFirstPositionThatWalkingFinds) {
  const double speeds[] = {0, 1, 0.99, 0.5, 0.001, 1e-6, 3.2, 6.3, 7, 100, 1e5 + 0.25};
  for (const double a : speeds) {
    for (const double b : speeds) {
      for (const double amplitude : {1.0, 1.001, 1.0039, 1.2}) {
        if (a == b && amplitude == 1) continue;
        const std::int64_t walked = first_position_by_walking({a, 1}, {b, amplitude}, 10000);
        EXPECT_EQ(first_position_of({a, 1}, {b, amplitude}), walked) << a << ' ' << b << ' ' << amplitude;
        EXPECT_EQ(first_position_of({b, amplitude}, {a, 1}), walked) << a << ' ' << b << ' ' << amplitude;
      }
    }
  }
}

TEST(Compare, TakesTheFirstOfAllPairs) {
  const Frequencies plain = default_frequencies(500000, 128);
  const Frequencies scaled = llama3_frequencies(500000, 128, {8, 1, 4, 8192});
  std::int64_t walked = -1, pair = -1;
  for (std::size_t j = 0; j < plain.inv_freq.size(); ++j) {
    const std::int64_t here = first_position_by_walking({plain.inv_freq[j], 1}, {scaled.inv_freq[j], 1}, 1000);
    if (here >= 0 && (walked < 0 || here < walked)) walked = here, pair = static_cast<std::int64_t>(j);
  }
  const Comparison comparison = compare(model_of(layer_with(plain)), model_of(layer_with(scaled)));
  EXPECT_EQ(comparison.first_position(), walked);
  EXPECT_EQ(comparison.layers().at(0).first_pair, pair);
  EXPECT_EQ(comparison.layers().at(0).length, 0);
  EXPECT_EQ(names(comparison), Names{"inv_freq"});
  EXPECT_EQ(named(comparison.layers().at(0).differences, "inv_freq").detail,
            std::string("35 of 64 pairs, 29 to 63; most in pair 35"));
}

TEST(Compare, CountsAnAmplitudeFromPositionZero) {
  const Comparison comparison = compare(model_of(layer_with({{1.0, 0.1}, 1})), model_of(layer_with({{1.0, 0.1}, 1.138})));
  EXPECT_EQ(names(comparison), Names{"amplitude"});
  EXPECT_EQ(comparison.first_position(), 0);
}

/// Along (p, 0) one pair stands still, along (0, p) the other: 0.001 p > 2^-8 from 4 on.
TEST(Compare, LooksAlongEachAxisWhereAPairChangedItsAxis) {
  LayerDescription a = layer_with({{1.0, 0.001}}), b = a;
  a.layout.axis = {0, 0};
  b.layout.axis = {0, 1};
  const Comparison comparison = compare(model_of(a), model_of(b));
  EXPECT_EQ(names(comparison), Names{"axis"});
  EXPECT_EQ(comparison.first_position(), 4);
  EXPECT_EQ(comparison.layers().at(0).first_pair, 1);
}

TEST(Compare, SeesThatTheOtherWayRoundIsTwiceAsFar) {
  LayerDescription a = layer_with({{0.001}}), b = a;
  b.layout.direction = -1;
  const Comparison comparison = compare(model_of(a), model_of(b));
  EXPECT_EQ(names(comparison), Names{"direction"});
  EXPECT_EQ(comparison.first_position(), 2);  // 0.002 p > 2^-8
}

// ---- channels ----------------------------------------------------------------------------------------------------------

TEST(Compare, SaysThatOnlyThePairingDiffers) {
  const Frequencies frequencies = default_frequencies(10000, 64);
  const Comparison comparison =
      compare(model_of(layer_with(frequencies, Pairing::half)), model_of(layer_with(frequencies, Pairing::interleaved)));
  EXPECT_TRUE(comparison.only_pairing_differs());
  EXPECT_FALSE(comparison.same());
  EXPECT_FALSE(comparison.same_keys());
  EXPECT_EQ(comparison.first_position(), -1);
  EXPECT_EQ(names(comparison), Names{"pairing"});

  const Comparison another_base = compare(model_of(layer_with(frequencies, Pairing::half)),
                                          model_of(layer_with(default_frequencies(10001, 64), Pairing::interleaved)));
  EXPECT_FALSE(another_base.only_pairing_differs());
  EXPECT_EQ(names(another_base), (Names{"pairing", "inv_freq"}));
}

TEST(Compare, TakesTheSameChannelsUnderAnotherNameAsTheSame) {
  const LayerDescription half = layer_with({{1.0, 0.1}});
  LayerDescription listed = half, reordered = half;
  listed.layout.pairing_in = reordered.layout.pairing_in = Pairing::listed;
  listed.layout.pairs_in = listed.layout.pairs_out = {{0, 2}, {1, 3}};
  reordered.layout.pairs_in = reordered.layout.pairs_out = {{1, 3}, {0, 2}};
  reordered.rule = Frequencies{{0.1, 1.0}};
  EXPECT_TRUE(compare(model_of(half), model_of(listed)).same());
  EXPECT_TRUE(compare(model_of(half), model_of(reordered)).same());
  EXPECT_FALSE(compare(model_of(half), model_of(listed)).layers().at(0).differences.empty());  // it is said all the same

  reordered.layout.pairs_in = reordered.layout.pairs_out = {{3, 1}, {2, 0}};  // (v, u) turned backwards
  reordered.layout.direction = -1;
  EXPECT_TRUE(compare(model_of(half), model_of(reordered)).same());

  reordered.layout.direction = 1;
  EXPECT_EQ(names(compare(model_of(half), model_of(reordered))), Names{"direction"});
}

/// Neighbours keep their partner when more of them turn; halves do not.
TEST(Compare, MatchesTheChannelsOfAPartialRotation) {
  LayerDescription whole = layer_with({{1.0, 0.001}}, Pairing::interleaved);
  LayerDescription part = whole;
  part.rule = Frequencies{{1.0}};
  part.layout.rotary_dim = 2;
  const Comparison comparison = compare(model_of(whole), model_of(part));
  EXPECT_EQ(names(comparison), Names{"rotary_dim"});
  EXPECT_EQ(comparison.first_position(), 4);
  EXPECT_EQ(comparison.layers().at(0).first_pair, 1);

  whole.layout.pairing_in = part.layout.pairing_in = Pairing::half;
  const Comparison halves = compare(model_of(whole), model_of(part));
  EXPECT_EQ(names(halves), Names{"rotary_dim"});
  EXPECT_EQ(halves.first_position(), -1);
  EXPECT_FALSE(halves.same_keys());
}

// ---- how close is the same ---------------------------------------------------------------------------------------------

Frequencies rounded_to_float32(Frequencies frequencies) {
  for (double& inv_freq : frequencies.inv_freq) inv_freq = static_cast<float>(inv_freq);
  return frequencies;
}

TEST(Compare, AllowsForTheFloat32OfAGguf) {
  const Frequencies exact = default_frequencies(10000, 128);
  const auto model = model_of(layer_with(exact));
  const Comparison gguf = compare(model, model_of(layer_with(rounded_to_float32(exact)), "gguf"));
  EXPECT_TRUE(gguf.same());
  EXPECT_EQ(gguf.tolerance(), 0x1p-23);
  EXPECT_EQ(gguf.first_position(), -1);
  const Comparison permuted = compare(model, model_of(layer_with(rounded_to_float32(exact), Pairing::interleaved), "gguf"));
  EXPECT_TRUE(permuted.only_pairing_differs());
  EXPECT_NE(std::string(named(gguf.layers().at(0).differences, "inv_freq").detail).find("float32"), std::string::npos);

  const Comparison config = compare(model, model_of(layer_with(rounded_to_float32(exact))));
  EXPECT_EQ(names(config), Names{"inv_freq"});
  EXPECT_FALSE(config.same());
}

TEST(Compare, TakesTwoThatHardlyTurnAsTheSame) {
  EXPECT_TRUE(compare(model_of(layer_with({{1.0, 0.0}})), model_of(layer_with({{1.0, 1e-30}}))).same());
  EXPECT_FALSE(compare(model_of(layer_with({{1.0, 0.0}})), model_of(layer_with({{1.0, 1e-15}}))).same());
}

// ---- what else differs -------------------------------------------------------------------------------------------------

TEST(Compare, TellsScoresFromKeys) {
  const LayerDescription plain = layer_with({{1.0, 0.1}});
  LayerDescription other = plain;
  other.softmax_scale = 0.1;
  other.sliding_window = 512;
  other.attention_chunk_size = 8192;
  other.num_q_heads = 4;
  other.norm_order = NormOrder::before_rotation;
  other.query_temperature = {QueryTemperature::Kind::steps, 0.1, 8192, 1};
  other.softcap = 50;
  other.has_sinks = true;
  other.rotates_values = other.unrotates_output = true;
  const Comparison comparison = compare(model_of(plain), model_of(other));
  EXPECT_EQ(names(comparison),
            (Names{"num_q_heads", "softmax_scale", "query_temperature", "softcap", "has_sinks", "sliding_window",
                   "attention_chunk_size", "norm_order", "rotates_values", "unrotates_output"}));
  EXPECT_TRUE(comparison.same_keys());
  EXPECT_FALSE(comparison.same());
  EXPECT_EQ(comparison.first_position(), -1);
  EXPECT_EQ(named(comparison.layers().at(0).differences, "query_temperature").b,
            std::string("1 + 0.1 ln(1 + floor((position + 1) / 8192))"));
}

TEST(Compare, KeysDifferByWhatMultipliesThemUnlessAGgufHasItInItsWeights) {
  const LayerDescription plain = layer_with({{1.0, 0.1}});
  LayerDescription scaled = plain;
  scaled.key_scale = 0.390625;
  const Comparison comparison = compare(model_of(plain), model_of(scaled));
  EXPECT_EQ(names(comparison), Names{"key_scale"});
  EXPECT_FALSE(comparison.same_keys());
  EXPECT_TRUE(compare(model_of(plain, "gguf"), model_of(scaled)).same());
}

TEST(Compare, TellsWindowsOfBothSidesFromThoseBefore) {
  LayerDescription before = layer_with({{1.0, 0.1}});
  before.sliding_window = 129;
  LayerDescription both = before;
  both.window_is_symmetric = true;
  const Comparison comparison = compare(model_of(before), model_of(both));
  EXPECT_EQ(names(comparison), Names{"window_is_symmetric"});
  EXPECT_TRUE(comparison.same_keys());
}

TEST(Compare, SaysWhatDecidedAndWhereItStood) {
  LayerDescription a = layer_with(default_frequencies(10000, 4)), b = layer_with(linear_frequencies(500000, 4, 2));
  a.provenance.add("base", 10000.0, "config.json: rope_theta");
  a.provenance.add("rule", "default", "no rope_scaling in the file");
  b.provenance.add("base", 500000.0, "default of test: 500000");
  b.provenance.add("rule", "linear", "config.json: rope_scaling.rope_type");
  b.provenance.add("factor", 2.0, "config.json: rope_scaling.factor");
  b.rule_name = "linear";
  const Comparison comparison = compare(model_of(a), model_of(b));
  EXPECT_EQ(names(comparison), (Names{"rule", "base", "inv_freq"}));
  const auto& differences = comparison.layers().at(0).differences;
  EXPECT_EQ(named(differences, "rule").b, std::string("linear (config.json: rope_scaling.rope_type)"));
  EXPECT_EQ(named(differences, "base").a, std::string("10000 (config.json: rope_theta)"));
  EXPECT_EQ(named(differences, "base").b, std::string("500000 (default of test: 500000)"));
}

TEST(Compare, TakesAnotherRuleWithTheSameFrequenciesAsTheSame) {
  LayerDescription a = layer_with({{1.0, 0.1}}), b = a;
  b.rule_name = "divisors";
  const Comparison comparison = compare(model_of(a), model_of(b));
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(named(comparison.layers().at(0).differences, "rule").effect, Effect::nothing);
}

TEST(Compare, GathersLayersThatDifferAlike) {
  const LayerDescription turning = layer_with({{1.0, 0.1}}), still = layer_without_rotation();
  const auto a = build_model(description_of({turning, still}, {0, 0, 1, 0, 0, 1, 1}));
  const auto b = build_model(description_of({turning}, {0, 0, 0, 0, 0, 0}));
  const Comparison comparison = compare(a, b);
  ASSERT_EQ(comparison.layers().size(), 2u);
  EXPECT_EQ(comparison.layers()[0].layers, (std::vector<LayerRange>{{0, 1}, {3, 4}}));
  EXPECT_TRUE(comparison.layers()[0].differences.empty());
  EXPECT_EQ(comparison.layers()[1].layers, (std::vector<LayerRange>{{2, 2}, {5, 5}}));
  EXPECT_EQ(named(comparison.layers()[1].differences, "turning").a, std::string("no rotation: learned positions"));
  EXPECT_EQ(comparison.layers()[1].first_position, 1);
  const Difference& number = named(comparison.differences(), "num_layers");
  EXPECT_EQ(number.effect, Effect::keys);
  EXPECT_EQ(std::string(number.a) + number.b, "76");
}

TEST(Compare, ComparesThePartsThatBothHave) {
  const LayerDescription text = layer_with({{1.0, 0.1}}), picture = layer_with({{1.0, 0.2}});
  ModelDescription a = description_of({text}, {0}), b = a, c = a;
  a.parts = {{"vision_config", description_of({picture}, {0, 0})}};
  b.parts = {{"vision_config", description_of({text}, {0, 0})}};
  const Comparison comparison = compare(build_model(a), build_model(b));
  EXPECT_FALSE(comparison.same());
  ASSERT_EQ(comparison.layers().size(), 2u);
  EXPECT_EQ(comparison.layers()[1].part, std::string("vision_config"));
  const Comparison without = compare(build_model(a), build_model(c));
  EXPECT_TRUE(without.same());
  EXPECT_EQ(named(without.differences(), "parts").b, std::string("not there"));
}

// ---- rules that depend on the length -------------------------------------------------------------------------------------

TEST(Compare, FindsTheLengthAtWhichARuleBeginsToDiffer) {
  LayerDescription plain = layer_with(default_frequencies(10000, 128)), dynamic = plain;
  dynamic.rule = DynamicNtk{10000, 128, 2, 4096};
  const Comparison comparison = compare(model_of(plain), model_of(dynamic));
  EXPECT_EQ(names(comparison), Names{"inv_freq"});
  EXPECT_EQ(comparison.layers().at(0).length, 4097);
  EXPECT_GT(comparison.first_position(), 0);
  EXPECT_LT(comparison.first_position(), 4097);
  EXPECT_TRUE(compare(model_of(dynamic), model_of(dynamic)).same());
}

// ---- real files --------------------------------------------------------------------------------------------------------

/// Nothing of tests/data/models is readable yet without its config.json.
std::vector<ModelRotations> readable_models() {
  std::vector<ModelRotations> models;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(ROTARY_TEST_DATA) / "models")) {
    try {
      models.push_back(read_model((entry.path() / "config.json").c_str()));
    } catch (const Error&) {
    }
  }
  return models;
}

TEST(Compare, AgreesWithTheFingerprints) {
  const auto models = readable_models();
  ASSERT_GE(models.size(), 10u);
  for (const ModelRotations& a : models) {
    for (const ModelRotations& b : models) {
      const bool same_fingerprint = std::string(a.fingerprint()) == b.fingerprint();
      EXPECT_EQ(compare(a, b).same_keys(), same_fingerprint) << a.source() << ' ' << b.source();
    }
    EXPECT_TRUE(compare(a, a).same());
  }
}

}  // namespace
}  // namespace rotary
