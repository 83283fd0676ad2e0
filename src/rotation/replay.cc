#include "rotation/replay.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/exact_angle.h"
#include "base/fail.h"

namespace rotary {
namespace {

/// The correctly rounded value, where `wide` is within 4 ulp of double of the truth: unless it lies as near as that to the
/// middle between two floats. Doubles have 29 bits more.
bool rounds_safely(double wide) noexcept {
  constexpr std::uint64_t spare = (std::uint64_t{1} << 29) - 1, middle = std::uint64_t{1} << 28, doubt = 8;
  const std::uint64_t tail = std::bit_cast<std::uint64_t>(wide) & spare;
  return tail < middle - doubt || tail > middle + doubt;
}

float correctly_rounded_cos(float angle) noexcept {
  const double wide = std::cos(static_cast<double>(angle));
  return rounds_safely(wide) ? static_cast<float>(wide) : nearest<float>(cos_sin(angle, 1).cos);
}

float correctly_rounded_sin(float angle) noexcept {
  const double wide = std::sin(static_cast<double>(angle));
  return rounds_safely(wide) ? static_cast<float>(wide) : nearest<float>(cos_sin(angle, 1).sin);
}

/// The float32 that transformers' own rule reaches: base^(2j/d) rounded, then its reciprocal rounded. A value that is a
/// float32 already is the system's own and stays.
float transformers_inv_freq(double inv_freq) noexcept {
  const auto rounded = static_cast<float>(inv_freq);
  return static_cast<double>(rounded) == inv_freq ? rounded : 1 / static_cast<float>(1 / inv_freq);
}

}  // namespace

template <class T>
void transformers_row(const Rotation& rotation, const double* position, T* cos, T* sin) noexcept {
  const auto amplitude = static_cast<float>(rotation.amplitude());
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const float angle = static_cast<float>(position[rotation.axis()[j]]) * transformers_inv_freq(rotation.inv_freq()[j]);
    cos[j] = correctly_rounded_cos(angle) * amplitude;
    sin[j] = correctly_rounded_sin(angle) * amplitude;
  }
}
template void transformers_row(const Rotation&, const double*, float*, float*) noexcept;
template void transformers_row(const Rotation&, const double*, double*, double*) noexcept;

GgmlRope ggml_rope(const char* operation, const Rotation& rotation) {
  const std::vector<double>& inv_freq = rotation.inv_freq();
  const std::vector<double>& divisors = rotation.ggml_divisors();
  const auto divisor = [&](std::size_t j) { return divisors.empty() ? 1.0 : divisors[j]; };

  // ggml is given the base as a float. Any inv_freq made from it in double gives it back exactly.
  const double first = inv_freq[0] * divisor(0);
  const double step = inv_freq.size() < 2 ? 1 : inv_freq[1] * divisor(1) / first;
  const auto base = static_cast<float>(std::pow(step, -static_cast<double>(rotation.rotary_dim()) / 2));
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    const double expected = first * std::pow(step, static_cast<double>(j));
    // Divisors are float32 in the file, and inv_freq need not have been made from those very floats. ggml writes "never
    // turns" as a huge divisor.
    const double tolerance = divisor(j) == 1 ? 1e-12 : 1e-6;
    const bool never_turns = inv_freq[j] == 0 && divisor(j) >= 1e10;
    if (!(first > 0 && std::abs(inv_freq[j] * divisor(j) - expected) <= tolerance * expected) && !never_turns) {
      fail_unsupported(operation,
                       "the ggml recipe needs inv_freq (times ggml_divisors) to be a geometric sequence in double; YaRN's "
                       "ramp and bases that differ between axes cannot be replayed. Pair ",
                       j, " has ", inv_freq[j] * divisor(j), " instead of ", expected);
    }
  }
  return {.theta_scale = std::pow(base, -2.0f / static_cast<float>(rotation.rotary_dim())),
          .freq_scale = static_cast<float>(first)};
}

// ggml_rope_cache_init and rope_yarn with ext_factor 0 (ggml-org/ggml, src/ggml-cpu/ops.cpp).
template <class T>
void ggml_row(const Rotation& rotation, const GgmlRope& rope, const double* position, T* cos, T* sin) noexcept {
  float theta[max_position_axes] = {};
  for (int a = 0; a < rotation.num_axes(); ++a) theta[a] = static_cast<float>(position[a]);

  const auto amplitude = static_cast<float>(rotation.amplitude());
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    float angle = theta[rotation.axis()[j]];
    if (!rotation.ggml_divisors().empty()) angle /= static_cast<float>(rotation.ggml_divisors()[j]);
    angle *= rope.freq_scale;
    cos[j] = std::cos(angle) * amplitude;
    sin[j] = std::sin(angle) * amplitude;
    for (float& t : theta) t *= rope.theta_scale;
  }
}
template void ggml_row(const Rotation&, const GgmlRope&, const double*, float*, float*) noexcept;
template void ggml_row(const Rotation&, const GgmlRope&, const double*, double*, double*) noexcept;

}  // namespace rotary
