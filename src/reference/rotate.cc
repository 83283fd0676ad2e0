#include "reference/rotate.h"

#include <vector>

#include "base/element.h"
#include "reference/angles.h"

namespace rotary::reference {
namespace {

/// What distinguishes the four operations.
struct Turn {
  const std::vector<Pair>& from;
  const std::vector<Pair>& to;
  double sign;
  double amplitude;
};

void turn_row(const std::vector<double>& x, std::vector<double>& y, const Rotation& rotation, const Turn& turn,
              const std::vector<double>& position) {
  y = x;  // channels of no pair stay
  for (std::size_t j = 0; j < turn.from.size(); ++j) {
    const CosSin angle = cos_sin(position[rotation.axis()[j]], rotation.inv_freq()[j]);
    const double c = turn.amplitude * angle.cos.hi;
    const double s = turn.amplitude * turn.sign * angle.sin.hi;
    const double u = x[static_cast<std::size_t>(turn.from[j].first)];
    const double v = x[static_cast<std::size_t>(turn.from[j].second)];
    y[static_cast<std::size_t>(turn.to[j].first)] = u * c - v * s;
    y[static_cast<std::size_t>(turn.to[j].second)] = v * c + u * s;
  }
}

void turn_all(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const Turn& turn,
              const PositionOf& position_of) {
  const char token_axis = x.has('T') ? 'T' : 'S';
  const std::int64_t width = x.size('D');
  std::vector<double> position(static_cast<std::size_t>(rotation.num_axes()));
  std::vector<double> row(static_cast<std::size_t>(width)), turned;

  for (std::int64_t b = 0; b < x.size('B'); ++b) {
    for (std::int64_t s = 0; s < x.size(token_axis); ++s) {
      for (int a = 0; a < rotation.num_axes(); ++a) position[static_cast<std::size_t>(a)] = position_of(b, s, a);
      for (std::int64_t h = 0; h < x.size('H'); ++h) {
        const std::int64_t from = b * x.stride('B') + s * x.stride(token_axis) + h * x.stride('H');
        const std::int64_t to = b * out.stride('B') + s * out.stride(token_axis) + h * out.stride('H');
        for (std::int64_t d = 0; d < width; ++d) {
          row[static_cast<std::size_t>(d)] = load_element(x.dtype(), x.data(), from + d * x.stride('D'));
        }
        turn_row(row, turned, rotation, turn, position);
        for (std::int64_t d = 0; d < width; ++d) {
          store_element(out.dtype(), out.data(), to + d * out.stride('D'), turned[static_cast<std::size_t>(d)]);
        }
      }
    }
  }
}

}  // namespace

void rotate(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& position) {
  const double sign = rotation.direction();
  turn_all(x, out, rotation, {rotation.pairs_in(), rotation.pairs_out(), sign, rotation.amplitude()}, position);
}

void unrotate(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& position) {
  const double sign = -rotation.direction();
  turn_all(x, out, rotation, {rotation.pairs_out(), rotation.pairs_in(), sign, 1 / rotation.amplitude()}, position);
}

void rotate_backward(const ConstTensorView& x, const TensorView& out, const Rotation& rotation,
                     const PositionOf& position) {
  const double sign = -rotation.direction();
  turn_all(x, out, rotation, {rotation.pairs_out(), rotation.pairs_in(), sign, rotation.amplitude()}, position);
}

void shift(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& distance) {
  const double sign = rotation.direction();
  turn_all(x, out, rotation, {rotation.pairs_out(), rotation.pairs_out(), sign, 1}, distance);
}

}  // namespace rotary::reference
