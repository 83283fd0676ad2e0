#include "rotary/isa.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace rotary {
namespace {

TEST(Isa, ScalarIsAlwaysThereAndWeakest) { EXPECT_EQ(available_isas().front(), Isa::scalar); }

TEST(Isa, TheForcedOneIsTheActiveOne) {
  const char* forced = std::getenv("ROTARY_ISA");
  const Isa expected = [&] {
    for (const Isa isa : available_isas()) {
      if (forced != nullptr && std::string(forced) == name(isa)) return isa;
    }
    return available_isas().back();
  }();
  EXPECT_EQ(active_isa(), expected);
}

}  // namespace
}  // namespace rotary
