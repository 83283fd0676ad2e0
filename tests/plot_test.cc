// plot_svg(): the numbers behind the curves, and a picture that can be shown.
#include "rotary/plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/description.h"
#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"
#include "support/well_formed_xml.h"
#include "tools/score_band.h"

namespace rotary {
namespace {

LayerDescription layer_with(FrequencyRule rule, const std::string& label = "") {
  LayerDescription layer;
  layer.label = label;
  layer.head_dim = 128;
  layer.num_q_heads = 8;
  layer.num_kv_heads = 2;
  layer.softmax_scale = 0.125;
  layer.layout.pairing_in = Pairing::half;
  layer.rule_name = "default";
  layer.rule = std::move(rule);
  layer.provenance.add("base", 500000.0, "test");
  return layer;
}

ModelRotations model_of(std::vector<LayerDescription> kinds) {
  ModelDescription model;
  model.model_type = "test";
  model.source = "test.json";
  model.format = "config.json";
  model.max_position_embeddings = 131072;
  for (std::size_t i = 0; i < kinds.size(); ++i) model.kind_of_layer.push_back(i);
  model.kinds = std::move(kinds);
  return build_model(std::move(model));
}

std::string picture_of(const ModelRotations& model, const PlotOptions& options = {}) {
  const auto svg = plot_svg(model, options);
  return {svg.begin(), svg.end()};
}

std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
  return count;
}

Rotation rotation_with(Frequencies frequencies) {
  LayerDescription layer = layer_with(std::move(frequencies));
  return layer.rotation_at(0);
}

// ---- the numbers ---------------------------------------------------------------------------------------------------------

TEST(ScoreBand, IsTheMeanCosineTimesTheSquaredAmplitude) {
  const Rotation rotation = rotation_with({{1.0, 0.1}, 1.5});
  EXPECT_EQ(mean_score(rotation, 0), 2.25);
  EXPECT_DOUBLE_EQ(mean_score(rotation, 7), 2.25 * (std::cos(7.0) + std::cos(0.7)) / 2);
}

TEST(ScoreBand, CoversEveryDistanceOnceAndHoldsItsScores) {
  const Rotation rotation = rotation_with(default_frequencies(10000, 128));
  const auto bands = score_bands(rotation, 1000, 100);
  double next = 1;
  for (const ScoreBand& band : bands) {
    EXPECT_EQ(band.from, next);
    double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
    for (double distance = band.from; distance <= band.to; ++distance) {
      const double score = mean_score(rotation, distance);
      low = std::min(low, score), high = std::max(high, score), sum += score;
    }
    if (band.to - band.from < 48) {  // all of them, not a sample
      EXPECT_EQ(band.low, low);
      EXPECT_EQ(band.high, high);
      EXPECT_NEAR(band.mean, sum / (band.to - band.from + 1), 1e-12);
    }
    EXPECT_GE(band.low, low);
    EXPECT_LE(band.high, high);
    next = band.to + 1;
  }
  EXPECT_EQ(next, 1001);
}

TEST(ScoreBand, StaysBelowItsEnvelope) {
  const auto bands = score_bands(rotation_with(default_frequencies(10000, 128)), 1e6, 200);
  const auto envelope = upper_envelope(bands);
  ASSERT_EQ(envelope.size(), bands.size());
  for (std::size_t i = 0; i < bands.size(); ++i) EXPECT_GE(envelope[i], bands[i].high - 1e-12);
}

// ---- the picture ---------------------------------------------------------------------------------------------------------

TEST(Plot, IsWellFormedWhateverNamesAFileGives) {
  const ModelRotations model = model_of({layer_with(default_frequencies(500000, 128), "<b>&\"\x01\xff")});
  EXPECT_EQ(fault_in_xml(picture_of(model)), "");
}

TEST(Plot, DrawsABlockForEverySortThatRotates) {
  LayerDescription still = layer_with(default_frequencies(500000, 128));
  still.turning = Turning::no_rotation;
  const ModelRotations model = model_of({layer_with(default_frequencies(10000, 128), "sliding_attention"), still,
                                         layer_with(default_frequencies(1000000, 128), "full_attention")});
  const std::string both = picture_of(model);
  EXPECT_EQ(count_of(both, ">layer "), 2u);
  EXPECT_NE(both.find("layer 0, sliding_attention"), std::string::npos);
  EXPECT_NE(both.find("layer 2, full_attention"), std::string::npos);
  EXPECT_EQ(count_of(picture_of(model, {.layer = 2}), ">layer "), 1u);
}

TEST(Plot, CountsThePairsThatNeverFinishATurn) {
  const std::string picture = picture_of(model_of({layer_with(default_frequencies(500000, 128))}));
  // 2 pi 500000^(2j / 128) > 131072 from j = 49 on.
  EXPECT_NE(picture.find("49 pairs finish a turn"), std::string::npos) << picture.substr(0, 4000);
  EXPECT_NE(picture.find("15 never do"), std::string::npos);
  EXPECT_EQ(count_of(picture, "class=\"accent\"/>"), 15u + 1);  // and one in the legend
  EXPECT_EQ(picture.find("without the rule"), std::string::npos);
}

TEST(Plot, ShowsWhatTheRuleChangedAndPairsAtRest) {
  LayerDescription scaled = layer_with(llama3_frequencies(500000, 128, {8, 1, 4, 8192}));
  scaled.rule_name = "llama3";
  EXPECT_EQ(count_of(picture_of(model_of({scaled})), "without the rule"), 2u);
  LayerDescription proportional = layer_with(proportional_frequencies(10000, 128, {.partial_rotary_factor = 0.25}));
  proportional.rule_name = "proportional";
  EXPECT_NE(picture_of(model_of({proportional})).find("48 at rest"), std::string::npos);
}

TEST(Plot, StaysReadableWithManySorts) {
  std::vector<LayerDescription> layers;
  for (int i = 0; i < 20; ++i) layers.push_back(layer_with(default_frequencies(10000 + i, 128)));
  const std::string picture = picture_of(model_of(layers));
  EXPECT_EQ(count_of(picture, ">layer "), 8u);
  EXPECT_NE(picture.find("the first 8 of 20 sorts"), std::string::npos);
}

TEST(Plot, StaysSmallWithAnAmplitudeBeyondReason) {
  for (const double amplitude : {1e3, 1e18, 1e160}) {
    Frequencies frequencies = default_frequencies(500000, 128);
    frequencies.amplitude = amplitude;
    const std::string picture = picture_of(model_of({layer_with(std::move(frequencies))}));
    EXPECT_LT(picture.size(), 100'000u) << amplitude;
    EXPECT_EQ(fault_in_xml(picture), "") << amplitude;
  }
}

TEST(Plot, RefusesAModelThatDoesNotRotate) {
  LayerDescription still = layer_with(default_frequencies(500000, 128));
  still.turning = Turning::no_rotation;
  still.reason = "learned positions";
  for (const std::int64_t layer : {-1, 0}) {
    try {
      plot_svg(model_of({still}), {.layer = layer});
      FAIL() << "drawn";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace rotary
