#include "rotary/frequency_file.hpp"

#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "base/fail.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "rotary/tensor.hpp"
#include "rotary/tensor_file.hpp"
#include "tools/decimals.h"

namespace rotary {
namespace {

std::string csv(const Rotation& rotation) {
  std::string text = "pair,channel_u,channel_v,inv_freq,wavelength,axis,amplitude\n";
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const Pair channels = rotation.pairs_in()[j];
    const double inv_freq = rotation.inv_freq()[j];
    text += std::to_string(j) + ',' + std::to_string(channels.first) + ',' + std::to_string(channels.second) + ',' +
            shortest(inv_freq) + ',' + shortest(2 * std::numbers::pi / std::abs(inv_freq)) + ',' +
            std::to_string(rotation.axis()[j]) + ',' + shortest(rotation.amplitude()) + '\n';
  }
  return text;
}

}  // namespace

std::vector<char> frequencies_csv(const Rotation& rotation) {
  const std::string text = csv(rotation);
  return {text.begin(), text.end()};
}

void write_frequencies(const char* path, const Rotation& rotation) {
  const std::string_view name = path;
  if (name.ends_with(".csv")) {
    AtomicFile file(path);
    file.write(csv(rotation));
    file.commit();
  } else if (name.ends_with(".npy")) {
    write_npy(path, {rotation.inv_freq().data(), "N", {rotation.num_pairs()}});
  } else {
    fail_argument("write_frequencies", "the path must end in .csv or .npy, got ", in_quotes(path));
  }
}

}  // namespace rotary
