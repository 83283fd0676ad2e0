#include "rotary/xpos.hpp"

#include <cmath>
#include <vector>

#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"
#include "rotation/positions.h"

namespace rotary {
namespace {

constexpr double gamma = 0.4;

/// How a call stretches the pairs of its tokens.
class Stretch {
 public:
  Stretch(const char* operation, const TensorView& x, const Rotation& rotation, const std::vector<Pair>& pairs,
          const Xpos& xpos)
      : operation_(operation), x_(x), pairs_(pairs), scale_base_(xpos.scale_base) {
    check_float_view(operation, "the tensor", x, "D", "BSTHD");
    if (x.size('D') != rotation.head_dim()) {
      fail_argument(operation, "the tensor must be as wide as the rotation along D, got ", x.size('D'), " for ",
                    rotation.head_dim());
    }
    if (overlaps_itself(x)) fail_argument(operation, "the elements of the tensor must not overlap each other");
    if (rotation.num_axes() != 1) {
      fail_argument(operation, "needs a rotation of positions with one axis, got ", rotation.num_axes());
    }
    if (!(xpos.scale_base > 0) || !std::isfinite(xpos.scale_base)) {
      fail_argument(operation, "scale_base must be above 0 and finite, got ", xpos.scale_base);
    }
    check_centre(xpos.centre);
    for (const double zeta : xpos_zetas(static_cast<std::int64_t>(pairs.size()))) log2_zetas_.push_back(std::log2(zeta));
  }

  void check_centre(double centre) const {
    if (!(std::abs(centre) <= 0x1p53)) fail_argument(operation_, "a centre must be at most 2^53 in size, got ", centre);
  }

  /// A token's pairs may get the factors zeta^(distance / scale_base).
  void check_distance(double distance, double position) const {
    const double limit = x_.dtype() == DType::f16 ? 12 : 100;
    const double growth = distance / scale_base_ * log2_zetas_.front();
    if (growth > limit) {
      fail_argument(operation_, "a factor must be at most 2^", limit, ", got 2^", growth, " at position ", position,
                    ": put the centre near the queries");
    }
  }

  /// Every head of a token.
  void stretch(std::int64_t row, char token_axis, std::int64_t token, double distance) const {
    const std::int64_t at = row * x_.stride('B') + token * x_.stride(token_axis), step = x_.stride('D');
    for (std::size_t j = 0; j < pairs_.size(); ++j) {
      const double factor = std::exp2(distance / scale_base_ * log2_zetas_[j]);
      for (std::int64_t h = 0; h < x_.size('H'); ++h) {
        for (const std::int64_t channel : {pairs_[j].first, pairs_[j].second}) {
          const std::int64_t element = at + h * x_.stride('H') + channel * step;
          store_element(x_.dtype(), x_.data(), element, factor * load_element(x_.dtype(), x_.data(), element));
        }
      }
    }
  }

 private:
  const char* operation_;
  const TensorView& x_;
  const std::vector<Pair>& pairs_;
  double scale_base_;
  std::vector<double> log2_zetas_;
};

/// `side` is 1 for queries, -1 for keys.
void stretch_tokens(const char* operation, const TensorView& x, const Rotation& rotation, const Positions& positions,
                    const Xpos& xpos, int side, Executor* executor) {
  const Stretch stretch(operation, x, rotation, rotation.pairs_in(), xpos);
  for (const ConstTensorView& read : {positions.position_ids, positions.offsets, positions.cu_seqlens}) {
    check_apart(operation, "the tensor", x, "the positions", read);
  }
  const Tokens tokens = tokens_of(operation, x);
  const TokenPositions token_positions(operation, positions, tokens, 1);
  const auto position_at = [&](std::int64_t row, std::int64_t token) {
    double position = 0;
    token_positions.read(row, token, &position);
    return position;
  };
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    for (std::int64_t s = 0; s < tokens.length; ++s) {
      const double position = position_at(b, s);
      stretch.check_distance(side * (position - xpos.centre), position);
    }
  }
  parallel_for(executor, tokens.batch * tokens.length, [&](std::int64_t task) {
    const std::int64_t b = task / tokens.length, s = task % tokens.length;
    stretch.stretch(b, tokens.packed ? 'T' : 'S', s, side * (position_at(b, s) - xpos.centre));
  });
}

}  // namespace

std::vector<double> xpos_zetas(std::int64_t num_pairs) {
  if (num_pairs < 1 || num_pairs > 1 << 19)
    fail_argument("xpos_zetas", "num_pairs must be 1 to ", 1 << 19, ", got ", num_pairs);
  const auto width = static_cast<double>(2 * num_pairs);
  std::vector<double> zetas;
  zetas.reserve(static_cast<std::size_t>(num_pairs));
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    zetas.push_back((static_cast<double>(2 * j) + gamma * width) / ((1 + gamma) * width));
  }
  return zetas;
}

void xpos_queries(const TensorView& q, const Rotation& rotation, const Positions& positions, const Xpos& xpos,
                  Executor* executor) {
  stretch_tokens("xpos_queries", q, rotation, positions, xpos, 1, executor);
}

void xpos_keys(const TensorView& k, const Rotation& rotation, const Positions& positions, const Xpos& xpos,
               Executor* executor) {
  stretch_tokens("xpos_keys", k, rotation, positions, xpos, -1, executor);
}

void xpos_recentre(const TensorView& keys, const Rotation& rotation, double centre, const Xpos& xpos, Executor* executor) {
  constexpr const char* operation = "xpos_recentre";
  const Stretch stretch(operation, keys, rotation, rotation.pairs_out(), xpos);
  stretch.check_centre(centre);
  stretch.check_distance(centre - xpos.centre, centre);
  const Tokens tokens = tokens_of(operation, keys);
  parallel_for(executor, tokens.batch * tokens.length, [&](std::int64_t task) {
    const std::int64_t b = task / tokens.length, s = task % tokens.length;
    stretch.stretch(b, tokens.packed ? 'T' : 'S', s, centre - xpos.centre);
  });
}

}  // namespace rotary
