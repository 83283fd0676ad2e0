// Axis maps and positions of pictures and videos, against maps written out by hand and the positions that transformers
// gives.
#include "rotary/position_axes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/rotation.hpp"
#include "support/error_sentence.h"

namespace {

using rotary::expect_refused;

using AxisMap = std::vector<std::uint8_t>;

/// "THW" with one letter per axis, so that maps read like the drawings in the documentation.
std::string letters(const AxisMap& axis, const std::string& names = "THWE") {
  std::string text;
  for (const std::uint8_t a : axis) text += names.at(a);
  return text;
}

std::string repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(ChunkedAxes, GiveEachAxisOneRun) {
  EXPECT_EQ(letters(rotary::chunked_axes({16, 24, 24})), repeat("T", 16) + repeat("H", 24) + repeat("W", 24));
  EXPECT_EQ(letters(rotary::chunked_axes({8, 12, 12})), repeat("T", 8) + repeat("H", 12) + repeat("W", 12));
  EXPECT_EQ(letters(rotary::chunked_axes({2, 2, 2, 2}), "PWHI"), "PPWWHHII");
  EXPECT_EQ(letters(rotary::chunked_axes({1, 0, 2})), "TWW");
}

TEST(InterleavedAxes, DealInTurnAndLeaveTheRestToTime) {
  EXPECT_EQ(letters(rotary::interleaved_axes({24, 20, 20})), repeat("THW", 20) + "TTTT");
  EXPECT_EQ(letters(rotary::interleaved_axes({11, 11, 10})), repeat("THW", 10) + "TH");
}

TEST(GgmlInterleavedAxes, FallToTheFourthAxisWhereTheTurnIsUsedUp) {
  EXPECT_EQ(letters(rotary::ggml_interleaved_axes({24, 20, 20, 0})), repeat("THW", 20) + "TEET");
  EXPECT_EQ(letters(rotary::ggml_interleaved_axes({11, 11, 10, 0})), repeat("THW", 10) + "TH");
}

TEST(ErnieAxes, AlternateHeightAndWidthAndEndInTime) {
  EXPECT_EQ(letters(rotary::ernie_axes({22, 22, 20})), repeat("HW", 22) + repeat("T", 20));
}

// The first two are what vLLM's own function gives.
TEST(PanguAxes, DealToTheAxisThatLagsBehind) {
  EXPECT_EQ(letters(rotary::pangu_axes({2, 2})), "THTH");
  EXPECT_EQ(letters(rotary::pangu_axes({2, 3, 3})), "THWHWHWT");
  EXPECT_EQ(letters(rotary::pangu_axes({4, 6, 6})), "THWHWTHWHWTHWHWT");
  EXPECT_EQ(letters(rotary::pangu_axes({1, 1, 0})), "HT");
  EXPECT_EQ(letters(rotary::pangu_axes({3, 1})), "THTT");
}

TEST(AlternatingAxes, TakeTurns) { EXPECT_EQ(letters(rotary::alternating_axes(2, 5)), "THTHT"); }

TEST(AxisMaps, RefuseSectionsThatMakeNoMap) {
  expect_refused([] { rotary::chunked_axes({}); }, "1 to 8 sections, got 0");
  expect_refused([] { rotary::chunked_axes(std::vector<std::int64_t>(9, 1)); }, "1 to 8 sections, got 9");
  expect_refused([] { rotary::chunked_axes({4, -1}); }, "sections must be at least 0");
  expect_refused([] { rotary::chunked_axes({std::int64_t{1} << 60}); }, "sections must be at least 0 and at most");
  expect_refused([] { rotary::chunked_axes({0, 0}); }, "at least one pair");
  expect_refused([] { rotary::interleaved_axes({24, 20}); }, "there must be 3 sections, got 2");
  expect_refused([] { rotary::ggml_interleaved_axes({24, 20, 20}); }, "there must be 4 sections, got 3");
  expect_refused([] { rotary::ernie_axes({20, 22, 22}); }, "height and width must be equal, got 20 and 22");
  expect_refused([] { rotary::pangu_axes({4}); }, "2 or 3 sections, got 1");
  expect_refused([] { rotary::pangu_axes({0, 2, 2}); }, "the first section must be at least 1");
  expect_refused([] { rotary::alternating_axes(0, 4); }, "num_axes must be 1 to 8");
  expect_refused([] { rotary::alternating_axes(2, 0); }, "num_pairs must be 1 to");
}

/// Angles of a token at (t, h, w) = (5, 7, 9).
std::vector<double> angles_at_5_7_9(double base, const AxisMap& axis) {
  const double position[] = {5, 7, 9};
  const auto inv_freq = rotary::default_frequencies(base, 2 * static_cast<std::int64_t>(axis.size())).inv_freq;
  std::vector<double> angles;
  for (std::size_t j = 0; j < axis.size(); ++j) angles.push_back(position[axis[j]] * inv_freq[j]);
  return angles;
}

TEST(AxisMaps, MakeTheKnownAnglesOfReleasedModels) {
  const auto expect = [](const std::vector<double>& angles, std::size_t pair, double value) {
    EXPECT_NEAR(angles[pair], value, 1e-11 * value) << "pair " << pair;
  };
  const auto qwen2 = angles_at_5_7_9(1e6, rotary::chunked_axes({16, 24, 24}));
  expect(qwen2, 0, 5);
  expect(qwen2, 15, 0.196209487924);
  expect(qwen2, 16, 0.221359436212);
  expect(qwen2, 39, 1.54471384836e-3);
  expect(qwen2, 40, 1.60045146904e-3);
  expect(qwen2, 63, 1.11684398468e-5);
  const auto qwen3 = angles_at_5_7_9(5e6, rotary::interleaved_axes({24, 20, 20}));
  expect(qwen3, 1, 5.50080986294);
  expect(qwen3, 2, 5.55775882314);
  expect(qwen3, 3, 2.42636305953);
  expect(qwen3, 59, 6.00661140943e-6);
  expect(qwen3, 60, 2.6223196257e-6);
  expect(qwen3, 61, 2.06069738012e-6);
  expect(qwen3, 63, 1.27253989402e-6);
  const auto ernie = angles_at_5_7_9(5e5, rotary::ernie_axes({22, 22, 20}));
  expect(ernie, 0, 7);
  expect(ernie, 1, 7.33155510471);
  expect(ernie, 43, 1.33428018894e-3);
  expect(ernie, 44, 6.03848687057e-4);
  expect(ernie, 63, 1.22757039557e-5);
}

TEST(BlockHalfPairs, SplitEachBlockOnItsOwn) {
  EXPECT_EQ(rotary::block_half_pairs({4, 4}), (std::vector<rotary::Pair>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(rotary::block_half_pairs({2, 4}), (std::vector<rotary::Pair>{{0, 1}, {2, 4}, {3, 5}}));
  expect_refused([] { rotary::block_half_pairs({4, 3}); }, "block_dims must be even");
  expect_refused([] { rotary::block_half_pairs({1 << 20, 2}); }, "block_dims must be even, at least 2 and at most");
}

// ---- positions --------------------------------------------------------------------------------------------------------

std::vector<double> row(const rotary::MropePositions& positions, std::int64_t axis) {
  const auto* begin = positions.position_ids.data() + axis * positions.num_tokens;
  return {begin, begin + positions.num_tokens};
}

TEST(MropePositions, RunThroughTextAndSpreadOverAPicture) {
  const std::vector<rotary::MropeSpan> prompt = {
      {.text_tokens = 2}, {.grid_t = 1, .grid_h = 4, .grid_w = 4}, {.text_tokens = 2}};
  for (const auto next : {rotary::MropeNext::after_largest_position, rotary::MropeNext::after_largest_side}) {
    const auto positions = rotary::mrope_positions(prompt, 2, next);
    ASSERT_EQ(positions.num_tokens, 8);
    EXPECT_EQ(row(positions, 0), (std::vector<double>{0, 1, 2, 2, 2, 2, 4, 5}));
    EXPECT_EQ(row(positions, 1), (std::vector<double>{0, 1, 2, 2, 3, 3, 4, 5}));
    EXPECT_EQ(row(positions, 2), (std::vector<double>{0, 1, 2, 3, 2, 3, 4, 5}));
    EXPECT_EQ(positions.delta, -2);
  }
}

TEST(MropePositions, GoOnAfterALongVideoByEitherRule) {
  const std::vector<rotary::MropeSpan> prompt = {
      {.text_tokens = 2}, {.grid_t = 5, .grid_h = 4, .grid_w = 4}, {.text_tokens = 2}};
  const auto by_side = rotary::mrope_positions(prompt, 2, rotary::MropeNext::after_largest_side);
  const auto by_position = rotary::mrope_positions(prompt, 2, rotary::MropeNext::after_largest_position);
  ASSERT_EQ(by_side.num_tokens, 24);
  EXPECT_EQ(row(by_side, 0)[22], 4);
  EXPECT_EQ(row(by_position, 0)[22], 7);
  EXPECT_EQ(by_side.delta, 7 - 24) << "the video's last frame stands at 6, past the text";
  EXPECT_EQ(by_position.delta, 9 - 24);
}

TEST(MropePositions, StepThroughTimeByFractions) {
  const auto positions = rotary::mrope_positions({{.grid_t = 3, .grid_h = 1, .grid_w = 1, .time_step = 0.5}}, 1,
                                                 rotary::MropeNext::after_largest_position);
  EXPECT_EQ(row(positions, 0), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(positions.delta, -1);
}

TEST(MropePositions, PutFramesOnWholePositionsAsEitherTransformersDoes) {
  // Qwen2.5-VL with tokens_per_second 2 and 0.7 seconds per grid, after one token of text. transformers 4 multiplies, then
  // drops the fraction of 0, 1.4, 2.8, 4.2; transformers 5 drops that of 0.7 first, and all frames stand at one position.
  const auto frames = [](double time_step, bool whole_frames) {
    const auto positions = rotary::mrope_positions(
        {{.text_tokens = 1}, {.grid_t = 4, .grid_h = 1, .grid_w = 1, .time_step = time_step, .whole_frames = whole_frames}},
        1, rotary::MropeNext::after_largest_position);
    return row(positions, 0);
  };
  EXPECT_EQ(frames(2 * 0.7, true), (std::vector<double>{0, 1, 2, 3, 5}));
  EXPECT_EQ(frames(2 * std::trunc(0.7), false), (std::vector<double>{0, 1, 1, 1, 1}));
  EXPECT_EQ(frames(2 * std::trunc(1.7), false), (std::vector<double>{0, 1, 3, 5, 7}));
  EXPECT_EQ(frames(2 * 0.75, false), (std::vector<double>{0, 1, 2.5, 4, 5.5}));
}

TEST(MropePositions, AcceptAnEmptyPrompt) {
  const auto positions = rotary::mrope_positions({}, 2, rotary::MropeNext::after_largest_side);
  EXPECT_EQ(positions.num_tokens, 0);
  EXPECT_EQ(positions.delta, 0);
}

TEST(MropePositions, RefuseGridsThatDoNotMerge) {
  const auto refused = [](rotary::MropeSpan span, std::int64_t merge, const char* words) {
    expect_refused([&] { rotary::mrope_positions({span}, merge, rotary::MropeNext::after_largest_side); }, words);
  };
  refused({.grid_t = 1, .grid_h = 3, .grid_w = 4}, 2, "grid_h must be a positive multiple of the merge size, got 3 and 2");
  refused({.grid_t = 1, .grid_h = 4, .grid_w = 0}, 2, "grid_w must be a positive multiple");
  refused({.grid_t = 0, .grid_h = 4, .grid_w = 4}, 2, "grid_t must be at least 1");
  refused({.text_tokens = 1, .grid_t = 1, .grid_h = 4, .grid_w = 4}, 2, "either text or a grid");
  refused({.text_tokens = -1}, 2, "text_tokens must not be negative");
  refused({.grid_t = 1, .grid_h = 4, .grid_w = 4, .time_step = -1}, 2, "time_step must be finite");
  refused({.text_tokens = 1}, 0, "spatial_merge_size must be at least 1");
  const std::int64_t huge = std::int64_t{1} << 62;
  refused({.grid_t = huge, .grid_h = huge, .grid_w = huge}, 1, "must have at most");
  refused({.text_tokens = huge}, 1, "must have at most");
}

TEST(GridPositions, GoRowByRow) {
  EXPECT_EQ(rotary::grid_positions(2, 3), (std::vector<double>{0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2}));
}

TEST(GridPositions, GoBlockByBlockBeforeMerging) {
  EXPECT_EQ(rotary::grid_positions(2, 4, 2), (std::vector<double>{0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 2, 3, 2, 3}));
  expect_refused([] { rotary::grid_positions(3, 4, 2); }, "height must be a positive multiple");
  expect_refused([] { rotary::grid_positions(2, 4, 0); }, "merge_size must be at least 1");
  expect_refused([] { rotary::grid_positions(std::int64_t{1} << 40, std::int64_t{1} << 40); }, "at most");
}

TEST(PatchCenter, RunsBetweenMinusOneAndOne) {
  EXPECT_DOUBLE_EQ(rotary::patch_center(0, 14), -0.9285714285714286);
  EXPECT_DOUBLE_EQ(rotary::patch_center(13, 14), 0.9285714285714286);
  EXPECT_EQ(rotary::patch_center(0, 1), 0.0);
  expect_refused([] { rotary::patch_center(14, 14); }, "below count, got 14 and 14");
  expect_refused([] { rotary::patch_center(0, 0); }, "below count");
}

}  // namespace
