// What position_bias() and shaw_scores() share: a tensor "BHQK" to write, and where its queries and keys stand.
#pragma once

#include <cstdint>

#include "rotary/positions.hpp"
#include "rotary/tensor.hpp"
#include "rotation/positions.h"

namespace rotary {

/// Throws Error (invalid_argument), in the name of `operation`, unless `out` is f64, f32, f16 or bf16, has its axes among B,
/// H, Q and K and `num_heads` heads, and overlaps neither itself nor the positions.
void check_bias_view(const char* operation, const TensorView& out, std::int64_t num_heads, const Positions& q_positions,
                     const Positions& k_positions);

/// The last of it.
void check_bias_positions(const char* operation, const TensorView& out, const Positions& q_positions,
                          const Positions& k_positions);

enum class PositionNumbers { any, whole };

/// Where the tokens of one side stand.
class SidePositions {
 public:
  /// Throws Error (invalid_argument), in the name of `operation`, for positions that do not fit, or are not whole.
  SidePositions(const char* operation, const Positions& positions, std::int64_t batch, std::int64_t length,
                PositionNumbers numbers);

  double at(std::int64_t batch_row, std::int64_t token) const noexcept {
    double position = 0;
    positions_.read(batch_row, token, &position);
    return position;
  }

 private:
  TokenPositions positions_;
};

}  // namespace rotary
