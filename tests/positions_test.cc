#include "rotation/positions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rotary/error.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

constexpr std::int64_t two_to_53 = std::int64_t{1} << 53;

std::vector<double> read(const TokenPositions& positions, std::int64_t row, std::int64_t token, int num_axes = 1) {
  std::vector<double> position(static_cast<std::size_t>(num_axes), -1);
  positions.read(row, token, position.data());
  return position;
}

std::vector<double> row_of(const Positions& positions, const Tokens& tokens, std::int64_t row = 0) {
  const TokenPositions checked("test", positions, tokens, 1);
  std::vector<double> all;
  for (std::int64_t s = 0; s < tokens.length; ++s) all.push_back(read(checked, row, s)[0]);
  return all;
}

std::string refusal(const Positions& positions, const Tokens& tokens, int num_axes = 1) {
  try {
    TokenPositions("rotate", positions, tokens, num_axes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

using Row = std::vector<double>;

TEST(Positions, CountFromZeroOrFromTheOffset) {
  EXPECT_EQ(row_of({}, {1, 3, false}), (Row{0, 1, 2}));
  EXPECT_EQ(row_of({.offset = 100}, {2, 3, false}, 1), (Row{100, 101, 102}));
  EXPECT_EQ(row_of({.offset = -2}, {1, 3, false}), (Row{-2, -1, 0}));
}

TEST(Positions, DecodeOfTokenNUsesPositionN_P10) { EXPECT_EQ(row_of({.offset = 7}, {1, 1, false}), (Row{7})); }

TEST(Positions, CountFromEachRowsOwnStart_P23) {
  const std::int32_t starts[] = {5, 0};
  const Positions positions{.offset = 1, .offsets = {starts, "B", {2}}};
  EXPECT_EQ(row_of(positions, {2, 2, false}, 0), (Row{6, 7}));
  EXPECT_EQ(row_of(positions, {2, 2, false}, 1), (Row{1, 2}));
}

TEST(Positions, AreTheIdsThatWereGiven_P3) {
  const std::int64_t ids[] = {0, 1, 2, 0, 1, 2};
  EXPECT_EQ(row_of({.position_ids = {ids, "S", {6}}}, {1, 6, false}), (Row{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(row_of({.position_ids = {ids, "T", {6}}}, {1, 6, true}), (Row{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(row_of({.position_ids = {ids, "BS", {2, 3}}}, {2, 3, false}, 1), (Row{0, 1, 2}));
}

TEST(Positions, MayRepeatAndHaveGaps_P7) {
  const std::int64_t ids[] = {0, 1, 1, 1, 2};
  EXPECT_EQ(row_of({.position_ids = {ids, "S", {5}}}, {1, 5, false}), (Row{0, 1, 1, 1, 2}));
}

TEST(Positions, OfOneRowServeEveryBatchRow_S14) {
  const std::int64_t ids[] = {3, 1, 4, 1, 5, 9};
  EXPECT_EQ(row_of({.position_ids = {ids, "BS", {1, 3}}}, {2, 3, false}, 1), (Row{3, 1, 4}));
  EXPECT_EQ(row_of({.position_ids = {ids, "S", {3}}}, {2, 3, false}, 1), (Row{3, 1, 4}));
  EXPECT_EQ(row_of({.position_ids = {ids, "BS", {2, 3}}}, {2, 3, false}, 1), (Row{1, 5, 9}));
  EXPECT_EQ(refusal({.position_ids = {ids, "BS", {2, 3}}}, {3, 3, false}),
            "rotate: position_ids must have one row, or one per batch row, got 2 for 3");
}

TEST(Positions, MayBeFractionsAndNegative) {
  const double ids[] = {-0.5, 1e6 + 0.25};
  EXPECT_EQ(row_of({.position_ids = {ids, "S", {2}}}, {1, 2, false}), (Row{-0.5, 1000000.25}));
  const std::int32_t small[] = {-7, 2147483647};
  EXPECT_EQ(row_of({.position_ids = {small, "S", {2}}}, {1, 2, false}), (Row{-7, 2147483647}));
}

TEST(Positions, KeepEveryIntegerUpTo2To53_D2) {
  const std::int64_t ids[] = {257, 2049, 16777217, two_to_53, -two_to_53};
  EXPECT_EQ(row_of({.position_ids = {ids, "S", {5}}}, {1, 5, false}),
            (Row{257, 2049, 16777217, 9007199254740992.0, -9007199254740992.0}));
}

TEST(Positions, FollowTheStridesOfTheirView) {
  const std::int64_t ids[] = {0, 1, 2, 3, 4, 5};
  const ConstTensorView view(ids, "S", {6});
  EXPECT_EQ(row_of({.position_ids = view.reversed('S')}, {1, 6, false}), (Row{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(row_of({.position_ids = {ids, DType::i64, "S", {3}, {2}}}, {1, 3, false}), (Row{0, 2, 4}));
  EXPECT_EQ(row_of({.position_ids = {ids + 2, DType::i64, "BS", {2, 3}, {0, 0}}}, {2, 3, false}, 1), (Row{2, 2, 2}));
}

TEST(Positions, OfSeveralAxesAreReadPerAxis) {
  const std::int64_t ids[] = {0, 1, 10, 11, 20, 21};  // three axes, two tokens
  const TokenPositions as("test", {.position_ids = {ids, "AS", {3, 2}}}, {1, 2, false}, 3);
  EXPECT_EQ(read(as, 0, 1, 3), (Row{1, 11, 21}));
  const TokenPositions sa("test", {.position_ids = {ids, "SA", {2, 3}}}, {1, 2, false}, 3);
  EXPECT_EQ(read(sa, 0, 1, 3), (Row{11, 20, 21}));
  const TokenPositions abs("test", {.position_ids = {ids, "ABS", {3, 2, 1}}}, {2, 1, false}, 3);
  EXPECT_EQ(read(abs, 1, 0, 3), (Row{1, 11, 21}));
  const TokenPositions at("test", {.position_ids = {ids, "AT", {3, 2}}}, {1, 2, true}, 3);
  EXPECT_EQ(read(at, 0, 0, 3), (Row{0, 10, 20}));
}

TEST(Positions, WithoutAnAxisDriveAllAxesAlike) {
  EXPECT_EQ(read(TokenPositions("test", {.offset = 9}, {1, 2, false}, 3), 0, 1, 3), (Row{10, 10, 10}));
  const std::int64_t ids[] = {4, 5};
  EXPECT_EQ(read(TokenPositions("test", {.position_ids = {ids, "S", {2}}}, {1, 2, false}, 2), 0, 1, 2), (Row{5, 5}));
}

TEST(Positions, OfPackedSequencesCountFromEachStart) {
  const std::int32_t ends[] = {0, 2, 2, 5, 6};  // the second is empty
  EXPECT_EQ(row_of({.cu_seqlens = {ends, "N", {5}}}, {1, 6, true}), (Row{0, 1, 0, 1, 2, 0}));
  const std::int64_t starts[] = {10, 99, 20, 30};
  EXPECT_EQ(row_of({.offset = 1, .offsets = {starts, "N", {4}}, .cu_seqlens = {ends, "N", {5}}}, {1, 6, true}),
            (Row{11, 12, 21, 22, 23, 31}));
  const std::int32_t nothing[] = {0};
  EXPECT_EQ(refusal({.cu_seqlens = {nothing, "N", {1}}}, {1, 0, true}), "accepted");
  const std::int32_t empty_first[] = {0, 0, 0, 2, 2};
  EXPECT_EQ(row_of({.cu_seqlens = {empty_first, "N", {5}}}, {1, 2, true}), (Row{0, 1}));
}

TEST(Positions, RefusePackedTokensThatWouldBeCountedThrough) {
  EXPECT_EQ(refusal({.offset = 3}, {1, 6, true}),
            "rotate: packed tokens (T) need position_ids or cu_seqlens: counting through would join sequences");
}

TEST(Positions, RefuseBoundariesThatDoNotFitTheTokens) {
  const auto with = [](std::vector<std::int64_t> ends, bool packed = true) {
    return refusal({.cu_seqlens = {ends.data(), "N", {static_cast<std::int64_t>(ends.size())}}}, {1, 6, packed});
  };
  EXPECT_EQ(with({0, 6}), "accepted");
  EXPECT_EQ(with({0, 5}), "rotate: cu_seqlens must end at the number of packed tokens, got 5 for 6");
  EXPECT_EQ(with({0, 7}), "rotate: cu_seqlens must end at the number of packed tokens, got 7 for 6");
  EXPECT_EQ(with({1, 6}), "rotate: cu_seqlens must start at 0, got 1");
  EXPECT_EQ(with({0, 4, 3, 6}), "rotate: cu_seqlens must never fall, got 3 after 4");
  EXPECT_EQ(with({}), "rotate: cu_seqlens must end at the number of packed tokens, got 0 for 6");
  EXPECT_EQ(with({0, 6}, false), "rotate: cu_seqlens needs packed tokens (axis T)");
}

TEST(Positions, RefuseOneEntryTooFewOrTooMany_P8) {
  const std::int64_t ids[] = {0, 1, 2, 3};
  EXPECT_EQ(refusal({.position_ids = {ids, "S", {3}}}, {1, 4, false}),
            "rotate: position_ids must have one entry per token, got 3 for 4 tokens");
  EXPECT_EQ(refusal({.position_ids = {ids, "S", {4}}}, {1, 3, false}),
            "rotate: position_ids must have one entry per token, got 4 for 3 tokens");
  EXPECT_EQ(refusal({.position_ids = {ids, "S", {1}}}, {1, 3, false}),
            "rotate: position_ids must have one entry per token, got 1 for 3 tokens");
  EXPECT_EQ(refusal({.offsets = {ids, "B", {3}}}, {2, 1, false}),
            "rotate: offsets must have one entry per batch row, got 3 for 2");
}

TEST(Positions, RefuseTheWrongAxes) {
  const std::int64_t ids[] = {0, 1, 2, 3};
  EXPECT_EQ(refusal({.position_ids = {ids, "T", {4}}}, {1, 4, false}),
            "rotate: position_ids must have the tokens' axis S, got \"T\"");
  EXPECT_EQ(refusal({.position_ids = {ids, "B", {4}}}, {4, 1, false}),
            "rotate: position_ids must have the tokens' axis S, got \"B\"");
  EXPECT_EQ(refusal({.position_ids = {ids, "HS", {1, 4}}}, {1, 4, false}),
            "rotate: position_ids must have axes among A, B, S, got \"HS\"");
  EXPECT_EQ(refusal({.position_ids = {ids, "AS", {2, 2}}}, {1, 2, false}, 3),
            "rotate: position_ids must have one entry per axis of the rotation, got 2 for 3");
  EXPECT_EQ(refusal({.offsets = {ids, "S", {4}}}, {4, 1, false}), "rotate: offsets must have the axis B alone, got \"S\"");
}

std::vector<double> range_of(const ConstTensorView& x, const Positions& positions) {
  const PositionRange range = position_range(x, positions);
  return {range.lowest, range.highest, static_cast<double>(range.length())};
}

TEST(PositionRange, SpansEveryTokenHoweverPositionsAreGiven) {
  const std::vector<float> data(6 * 2);
  const ConstTensorView rows(data.data(), "BSD", {2, 3, 2}), packed(data.data(), "TD", {6, 2});
  EXPECT_EQ(range_of(rows, {}), (Row{0, 2, 3}));
  EXPECT_EQ(range_of(rows, {.offset = 7}), (Row{7, 9, 10}));
  EXPECT_EQ(range_of(rows, {.offset = -7}), (Row{-7, -5, 0}));
  const std::int32_t starts[] = {40, 5};
  EXPECT_EQ(range_of(rows, {.offset = 1, .offsets = {starts, "B", {2}}}), (Row{6, 43, 44}));
  const double ids[] = {3, -1.5, 8.25, 0, 1, 2};
  EXPECT_EQ(range_of(rows, {.position_ids = {ids, "BS", {2, 3}}}), (Row{-1.5, 8.25, 9}));
  EXPECT_EQ(range_of(rows, {.position_ids = {ids, "AS", {2, 3}}}), (Row{-1.5, 8.25, 9}));
  const std::int64_t cu_seqlens[] = {0, 4, 4, 6};
  EXPECT_EQ(range_of(packed, {.cu_seqlens = {cu_seqlens, "N", {4}}}), (Row{0, 3, 4}));
  const std::int64_t starts_of_three[] = {1, 1000, 10};  // the second has no token
  EXPECT_EQ(range_of(packed, {.offsets = {starts_of_three, "N", {3}}, .cu_seqlens = {cu_seqlens, "N", {4}}}),
            (Row{1, 11, 12}));
}

TEST(PositionRange, OfNoTokensIsEmpty) {
  EXPECT_EQ(range_of({nullptr, DType::f32, "SD", {0, 2}}, {.offset = 5}), (Row{0, -1, 0}));
  const std::int64_t zero = 0;
  EXPECT_EQ(range_of({nullptr, DType::f32, "TD", {0, 2}}, {.cu_seqlens = {&zero, "N", {1}}}), (Row{0, -1, 0}));
}

/// A tensor without heads has no data, however many tokens it states.
TEST(PositionRange, DoesNotWalkThroughTokensThatItCounts) {
  constexpr std::int64_t many = std::int64_t{1} << 50;
  const std::int64_t cu_seqlens[] = {0, many};
  EXPECT_EQ(range_of({nullptr, DType::f32, "SHD", {many, 0, 2}}, {}), (Row{0, 0x1p50 - 1, 0x1p50}));
  EXPECT_EQ(range_of({nullptr, DType::f32, "THD", {many, 0, 2}}, {.cu_seqlens = {cu_seqlens, "N", {2}}}),
            (Row{0, 0x1p50 - 1, 0x1p50}));
}

TEST(PositionRange, RefusesWhatIsNotRepresentable) {
  const float x[2] = {};
  expect_refused([&] { position_range({x, "SD", {1, 2}}, {.offset = std::numeric_limits<std::int64_t>::max()}); }, "2^53");
  expect_refused([&] { position_range({x, "TD", {1, 2}}); }, "cu_seqlens");
}

TEST(Positions, RefuseTwoWaysAtOnce) {
  const std::int64_t ids[] = {0, 1};
  EXPECT_EQ(refusal({.offset = 1, .position_ids = {ids, "S", {2}}}, {1, 2, false}),
            "rotate: position_ids say it all: give no offset, offsets or cu_seqlens beside them");
}

TEST(Positions, RefuseWhatIsNoNumberOrTooLarge_K4) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    const double ids[] = {0, bad};
    EXPECT_NE(refusal({.position_ids = {ids, "S", {2}}}, {1, 2, false}).find("must be finite and at most 2^53"),
              std::string::npos);
  }
  for (const std::int64_t bad : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
                                 two_to_53 + 1, -two_to_53 - 1}) {
    const std::int64_t ids[] = {0, bad};
    EXPECT_NE(refusal({.position_ids = {ids, "S", {2}}}, {1, 2, false}).find("must be at most 2^53"), std::string::npos);
    EXPECT_NE(refusal({.offset = bad}, {1, 2, false}).find("must be at most 2^53"), std::string::npos);
    EXPECT_NE(refusal({.offsets = {ids, "B", {2}}}, {2, 1, false}).find("must be at most 2^53"), std::string::npos);
  }
  EXPECT_NE(refusal({.offset = two_to_53}, {1, 2, false}), "accepted");
}

TEST(Positions, RefuseTheWrongDtype_P4) {
  const float ids[] = {0, 1};
  EXPECT_EQ(refusal({.position_ids = {ids, "S", {2}}}, {1, 2, false}),
            "rotate: position_ids must be int32, int64 or float64, got float32");
  const bfloat16 low[] = {{0}, {0}};
  EXPECT_EQ(refusal({.position_ids = {low, "S", {2}}}, {1, 2, false}),
            "rotate: position_ids must be int32, int64 or float64, got bfloat16");
  const double fractions[] = {0, 1};
  EXPECT_EQ(refusal({.offsets = {fractions, "B", {2}}}, {2, 1, false}),
            "rotate: offsets must be int32 or int64, got float64");
}

TEST(Tokens, AreOnOneAxis) {
  const float x[24] = {};
  EXPECT_EQ(tokens_of("rotate", {x, "BSHD", {2, 3, 1, 4}}), (Tokens{2, 3, false}));
  EXPECT_EQ(tokens_of("rotate", {x, "HDS", {2, 4, 3}}), (Tokens{1, 3, false}));
  EXPECT_EQ(tokens_of("rotate", {x, "THD", {3, 2, 4}}), (Tokens{1, 3, true}));
  EXPECT_THROW(tokens_of("rotate", {x, "BHD", {3, 2, 4}}), Error);
  EXPECT_THROW(tokens_of("rotate", {x, "STHD", {3, 1, 2, 4}}), Error);
  EXPECT_THROW(tokens_of("rotate", {x, "BTHD", {1, 3, 2, 4}}), Error);
}

TEST(Distances, ServeEveryAxisThatIsLeftOut) {
  const std::int64_t per_row[] = {-3, 4};
  const auto rows = TokenPositions::listed("shift", "distances", {per_row, "B", {2}}, {2, 5, false}, 2);
  EXPECT_EQ(read(rows, 0, 4, 2), (Row{-3, -3}));
  EXPECT_EQ(read(rows, 1, 0, 2), (Row{4, 4}));
  const double per_axis[] = {1, 2, 3, 10, 20, 30};
  const auto axes = TokenPositions::listed("shift", "distances", {per_axis, "AS", {2, 3}}, {2, 3, false}, 2);
  EXPECT_EQ(read(axes, 1, 2, 2), (Row{3, 30}));
}

}  // namespace
}  // namespace rotary
