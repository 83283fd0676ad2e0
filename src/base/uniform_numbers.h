// Numbers in [0, 1) that depend on the seed alone: the standard library's distributions differ from one library to another.
#pragma once

#include <cstdint>

namespace rotary {

/// splitmix64 (Steele, Lea and Flood 2014), its upper 53 bits.
class UniformNumbers {
 public:
  explicit UniformNumbers(std::uint64_t seed) noexcept : state_(seed) {}

  double next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

}  // namespace rotary
