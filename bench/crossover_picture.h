// A picture of time per token against length: one curve that grows, others that do not, and where they cross.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rotary::bench {

struct Sample {
  std::int64_t length;
  double ns;  ///< per token
};

struct Curve {
  std::string name;
  std::vector<Sample> samples;  ///< by length
  double crossing = 0;          ///< the length from which it lies below the first curve; 0: none was seen
};

/// Where `curve` comes to lie below `first` for good, on lines between the lengths that both have; 0: nowhere.
double crossing(const Curve& first, const Curve& curve);

/// An SVG with the first curve in ink; `words` go below the title.
std::string crossover_picture(const std::vector<Curve>& curves, const std::string& words);

}  // namespace rotary::bench
