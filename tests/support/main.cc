// Every test program starts here: one asked for an instruction set that this machine lacks says so instead of running.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "rotary/error.hpp"
#include "rotary/isa.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    const rotary::Isa isa = rotary::active_isa();
    std::printf("instruction set: %s\n", rotary::name(isa));
  } catch (const rotary::Error& error) {
    std::printf("skipped: %s\n", error.what());
    constexpr int skipped = 77;
    return skipped;
  }
  return RUN_ALL_TESTS();
}
