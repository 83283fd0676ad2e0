// Rotations that are none, or that turn the wrong thing.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "rotary/rotate.hpp"
#include "rotary/sinusoidal.hpp"
#include "tools/claims/fault.h"
#include "tools/claims/rows.h"

namespace rotary::claims {
namespace {

/// Attention turns queries and keys as this fault does, then goes on without a rotation.
class WrongTurns : public Operations {
 public:
  void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                 const Places& places, AttentionOptions options) const override {
    if (options.rotation == nullptr) return Operations::attention(q, k, v, out, places, options);
    Rows turned_q = copy_of(q), turned_k = copy_of(k);
    rotate_queries(turned_q, *options.rotation, places);
    rotate_keys(turned_k, *options.rotation, places);
    options.rotation = nullptr;
    Operations::attention(turned_q, turned_k, v, out, places, options);
  }
};

class NoRotation : public WrongTurns {
  void rotate_queries(const TensorView& /*q*/, const Rotation& /*rotation*/, const Places& /*places*/) const override {}
  void rotate_keys(const TensorView& /*k*/, const Rotation& /*rotation*/, const Places& /*places*/) const override {}
  void rotate_backward(const TensorView& /*gradient*/, const Rotation& /*rotation*/,
                       const Places& /*places*/) const override {}
  void shift(const TensorView& /*rotated*/, const Rotation& /*rotation*/, double /*distance*/) const override {}
  LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                         const TensorView& out, const Places& places,
                                         LinearAttentionOptions options) const override {
    options.rotation = nullptr;
    return Operations::linear_attention(q, k, v, out, places, options);
  }
  LinearWeights linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                               const Places& places, LinearAttentionOptions options) const override {
    options.rotation = nullptr;
    return Operations::linear_weights(q, k, weights, places, options);
  }
};

class RotateKeysOnly : public WrongTurns {
  void rotate_queries(const TensorView& /*q*/, const Rotation& /*rotation*/, const Places& /*places*/) const override {}
};

class MixedPairings : public WrongTurns {
  void rotate_keys(const TensorView& k, const Rotation& rotation, const Places& places) const override {
    const bool half = rotation.pairing_in() == Pairing::half;
    WrongTurns::rotate_keys(k, with_pairing(rotation, half ? Pairing::interleaved : Pairing::half), places);
  }
};

/// Pair j takes the angle of pair j / 2 for its first channel, and that of pair num_pairs / 2 + j / 2 for its second: a table
/// that was laid out for neighbours, read by halves.
class UnequalPairAngles : public WrongTurns {
 public:
  void rotate_queries(const TensorView& q, const Rotation& rotation, const Places& places) const override {
    turn(q, rotation, places);
  }
  void rotate_keys(const TensorView& k, const Rotation& rotation, const Places& places) const override {
    turn(k, rotation, places);
  }

 private:
  static void turn(const TensorView& x, const Rotation& rotation, const Places& places) {
    auto* const values = static_cast<float*>(x.data());
    const std::int64_t num_pairs = rotation.num_pairs();
    for (std::size_t row = 0; row < places.size(); ++row) {
      float* const head = values + static_cast<std::int64_t>(row) * x.size('D');
      for (std::int64_t j = 0; j < num_pairs; ++j) {
        const auto [first, second] = rotation.pairs_in()[static_cast<std::size_t>(j)];
        const double a = places[row] * rotation.inv_freq()[static_cast<std::size_t>(j / 2)];
        const double b = places[row] * rotation.inv_freq()[static_cast<std::size_t>((num_pairs + j) / 2)];
        const double u = head[first], v = head[second];
        head[first] = static_cast<float>(u * std::cos(a) - v * std::sin(a));
        head[second] = static_cast<float>(v * std::cos(b) + u * std::sin(b));
      }
    }
  }
};

class SignOfTranspose : public Operations {
  void rotate_backward(const TensorView& gradient, const Rotation& rotation, const Places& places) const override {
    rotate_queries(gradient, rotation, places);
  }
};

class ShiftTheOtherWay : public Operations {
  void shift(const TensorView& rotated, const Rotation& rotation, double distance) const override {
    Operations::shift(rotated, rotation, -distance);
  }
};

class ClampedPositions : public Operations {
  Places placed(Places places) const override {
    for (double& place : places) place = std::min(place, 511.0);
    return places;
  }
};

class PositionsFromOne : public Operations {
  Places placed(Places places) const override {
    for (double& place : places) place += 1;
    return places;
  }
};

class ExponentWithoutTwo : public Operations {
  std::vector<double> inv_freq(double base, std::int64_t rotary_dim) const override {
    std::vector<double> inv_freq;
    for (std::int64_t j = 0; j < rotary_dim / 2; ++j) {
      inv_freq.push_back(std::pow(base, -static_cast<double>(j) / static_cast<double>(rotary_dim)));
    }
    return inv_freq;
  }
};

class SinusoidalOtherFrequencies : public Operations {
  void sinusoidal(const TensorView& out, const Rotation& rotation, const Places& places) const override {
    const Rotation other = sinusoidal_rotation(Sinusoidal::tensor2tensor, rotation.head_dim());
    Operations::sinusoidal(out, with_pairing(other, rotation.pairing_in()), places);
  }
};

}  // namespace

std::vector<Fault> rotation_faults() {
  return {
      {{"no-rotation", "nothing is rotated", "什么都不旋转"}, make<NoRotation>},
      {{"rotate-keys-only", "queries are left as they are", "只旋转键，不旋转查询"}, make<RotateKeysOnly>},
      {{"mixed-pairings", "keys turn in the other pairing than queries", "键与查询用不同的配对方式"}, make<MixedPairings>},
      {{"unequal-pair-angles", "the two channels of a pair take cos and sin of different angles",
        "一对通道的两个成员用了不同角度的 cos 和 sin"},
       make<UnequalPairAngles>},
      {{"sign-of-transpose", "the transpose turns forwards", "转置仍按正方向旋转"}, make<SignOfTranspose>},
      {{"shift-the-other-way", "cached keys move by the opposite distance", "缓存的键按相反的距离移动"},
       make<ShiftTheOtherWay>},
      {{"clamped-positions", "positions end at 511, as a table would", "位置到 511 为止，像一张用完的表"},
       make<ClampedPositions>},
      {{"positions-from-one", "the first position is 1", "位置从 1 数起"}, make<PositionsFromOne>},
      {{"exponent-without-two", "inv_freq = base^(-j / d) instead of base^(-2j / d)", "inv_freq 用 base^(-j/d)，漏了 2"},
       make<ExponentWithoutTwo>},
      {{"sinusoidal-other-frequencies", "the sinusoidal encoding spaces its frequencies as tensor2tensor does",
        "正弦编码改用 tensor2tensor 的频率间隔"},
       make<SinusoidalOtherFrequencies>}};
}

}  // namespace rotary::claims
