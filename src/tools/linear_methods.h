// The methods of linear attention that have a name: those of `rotary attend --linear`, and of the benchmarks.
#pragma once

#include <array>
#include <cstdint>

#include "rotary/linear_attention.hpp"

namespace rotary {

/// How the features of a method get their positions.
enum class Turned : std::uint8_t {
  never,
  by_rotation,  ///< one of a model, or by hand
  by_channel,   ///< LRPE: a frequency per channel
  by_cosine,    ///< cosFormer: one frequency
};

struct LinearMethod {
  const char* name;
  Features features;
  Turned turned;
  Rotate rotate;
  Normalizer normalizer;

  constexpr bool takes_projection() const noexcept {
    return features == Features::favor_plus || features == Features::favor_relu;
  }
  constexpr bool takes_scale() const noexcept { return takes_projection() || features == Features::taylor2; }
  /// RetNet's, where none is given.
  constexpr bool has_decay() const noexcept { return features == Features::identity; }
  constexpr bool takes_map() const noexcept {
    return turned == Turned::by_rotation && rotate == Rotate::after_map && features == Features::elu_plus_1;
  }
};

inline constexpr std::array linear_methods{
    LinearMethod{"elu", Features::elu_plus_1, Turned::never, Rotate::after_map, Normalizer::features},
    LinearMethod{"roformer", Features::elu_plus_1, Turned::by_rotation, Rotate::after_map, Normalizer::features},
    LinearMethod{"rotated", Features::elu_plus_1, Turned::by_rotation, Rotate::after_map, Normalizer::rotated},
    LinearMethod{"pair-norms", Features::elu_plus_1, Turned::by_rotation, Rotate::after_map, Normalizer::pair_norms},
    LinearMethod{"performer", Features::favor_plus, Turned::by_rotation, Rotate::before_map, Normalizer::features},
    LinearMethod{"performer-relu", Features::favor_relu, Turned::by_rotation, Rotate::before_map, Normalizer::features},
    LinearMethod{"one-plus-cos", Features::one_plus_cos, Turned::by_rotation, Rotate::before_map, Normalizer::features},
    LinearMethod{"taylor2", Features::taylor2, Turned::by_rotation, Rotate::before_map, Normalizer::features},
    LinearMethod{"cosformer", Features::relu, Turned::by_cosine, Rotate::lifted, Normalizer::rotated},
    LinearMethod{"lrpe", Features::elu_plus_1, Turned::by_channel, Rotate::lifted, Normalizer::none},
    LinearMethod{"retention", Features::identity, Turned::by_rotation, Rotate::after_map, Normalizer::none},
};

}  // namespace rotary
