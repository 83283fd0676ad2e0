// Working memory of a task.
#include "base/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rotary {
namespace {

TEST(Scratch, GivesPiecesThatBeginOnLinesAndDoNotOverlapOnTheStackAndPastIt) {
  struct Piece {
    std::int32_t* numbers;
    std::int64_t count;
  };
  Scratch scratch;
  std::vector<Piece> pieces;
  for (const std::int64_t count : {1, 0, 100, 5000, 17, 900, 1, 100000, 3}) {
    pieces.push_back({scratch.take<std::int32_t>(count), count});
    const Piece& piece = pieces.back();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.numbers) % 64, 0u);
    std::fill_n(piece.numbers, count, static_cast<std::int32_t>(pieces.size()));
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto& [numbers, count] = pieces[i];
    EXPECT_EQ(std::count(numbers, numbers + count, static_cast<std::int32_t>(i + 1)), count) << "piece " << i;
  }
}

}  // namespace
}  // namespace rotary
