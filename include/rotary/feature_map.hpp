// What linear attention does to queries and keys so that a weight becomes an inner product: phi(q) . phi(k). With
// d = width of q and k, s = scale, x' = x sqrt(s):
//
//     identity       x                                                 features that the caller has mapped; may be signed
//     relu           max(x, 0)
//     elu_plus_1     x + 1 above 0, else e^x                           Katharopoulos et al. 2020, equation 7
//     one_plus_cos   (1, x / |x|): 1 + cos(q, k)                       Su 2020 (kexue.fm 7546); a zero row: (1, 0)
//     taylor2        (1, x', x'_i^2 / sqrt 2, x'_i x'_j for i < j): 1 + s q.k + (s q.k)^2 / 2    Arora et al. 2024 (Based)
//     favor_plus     exp(w . x' - |x'|^2 / 2) / sqrt(m), w the m rows of `projection`: the mean over w from N(0, 1) is
//                    exp(s q.k)                                        Choromanski et al. 2021, lemma 1
//     favor_relu     max(w . x', 0) + epsilon                          the same paper's generalised attention
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

enum class Features : std::uint8_t { identity, relu, elu_plus_1, one_plus_cos, taylor2, favor_plus, favor_relu };

ROTARY_API const char* name(Features features) noexcept;

struct FeatureMap {
  Features features = Features::elu_plus_1;
  /// For favor_plus and favor_relu: axes N (features) and D (width of q and k), f32 or f64, finite. Whoever streams keeps
  /// one projection for the whole life of a state.
  ConstTensorView projection = {};
  double scale = 0;    ///< of taylor2, favor_plus and favor_relu; 0: 1 / sqrt(width of q and k)
  double epsilon = 0;  ///< of favor_relu; not negative
};

/// How many features a row of `head_dim` channels gets. Error (invalid_argument) where the map has no projection or one
/// of another width, or would give more than 2^20.
ROTARY_API std::int64_t num_features(const FeatureMap& map, std::int64_t head_dim);

/// num_features rows of head_dim numbers from a seed: for the same arguments the same numbers, bit for bit, on every machine
/// whose doubles are those of IEEE 754.
/// Orthogonal: rows in blocks of head_dim are at right angles to each other, their directions uniform and their lengths as
/// those of independent normal rows (Choromanski et al. 2021, section 4; by Gram and Schmidt, whose signs do not favour a
/// direction as those of a plain QR do). Otherwise: independent normal numbers. Sizes are 1 to 65,536.
ROTARY_API std::vector<double> favor_projection(std::int64_t num_features, std::int64_t head_dim, std::uint64_t seed,
                                                bool orthogonal = true);

}  // namespace rotary
