#include "kernels/linear_attention.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "base/round_up.h"
#include "kernels/exp-inl.h"
#include "kernels/lane_sums-inl.h"
#include "kernels/pairs-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));

/// The lanes of a vector from `from` on that belong to `length` numbers; the others are 0.
template <class T>
HWY_INLINE Vec<T> load_rest(const T* from, std::int64_t length) {
  HWY_ALIGN T rest[hn::MaxLanes(Tag<T>())] = {};
  std::copy(from, from + length, rest);
  return hn::Load(Tag<T>(), rest);
}

/// out = f(x), a vector at a time.
template <class T, class F>
HWY_INLINE void map(const T* x, std::int64_t length, T* out, const F& f) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + lanes<T> <= length; i += lanes<T>) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
  if (i == length) return;
  HWY_ALIGN T rest[hn::MaxLanes(Tag<T>())];
  hn::Store(f(load_rest(x + i, length - i)), d, rest);
  std::copy(rest, rest + (length - i), out + i);
}

// ---- functions of one channel ----

struct Identity {
  template <class T>
  static HWY_INLINE Vec<T> of(Vec<T> v) {
    return v;
  }
};

struct EluPlus1 {
  template <class T>
  static HWY_INLINE Vec<T> of(Vec<T> v) {
    const Tag<T> d;
    const Vec<T> zero = hn::Zero(d);
    const auto above = hn::Gt(v, zero);
    return hn::IfThenElse(above, hn::Add(v, hn::Set(d, T{1})), exp_of_nonpositive<T>(hn::IfThenElse(above, zero, v)));
  }
};

struct Relu {
  template <class T>
  static HWY_INLINE Vec<T> of(Vec<T> v) {
    return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(Tag<T>())), v);
  }
};

template <class Function, class T>
void map_channels(const T* x, std::int64_t length, T* out) noexcept {
  map(x, length, out, [](Vec<T> v) ROTARY_LAMBDA { return Function::template of<T>(v); });
}

/// Two vectors of a row that hold whole pairs: where their members begin in x, features, and turned.
template <class T>
struct PlaceOfPairs {
  const T *x_u, *x_v;
  T *features_u, *features_v, *turned_u, *turned_v;
};

template <class Function, bool interleaved, class T>
HWY_INLINE void map_and_turn_pairs(const PlaceOfPairs<T>& place, const T* cos, const T* sin) {
  const Tag<T> d;
  Members<T> x{Function::template of<T>(hn::LoadU(d, place.x_u)), Function::template of<T>(hn::LoadU(d, place.x_v))};
  hn::StoreU(x.u, d, place.features_u);
  hn::StoreU(x.v, d, place.features_v);
  if constexpr (interleaved) {
    const SpreadPairs<T> pairs = spread<T>(x.u, x.v);
    x.u = turn_spread_fused<T>(pairs.first, hn::LoadU(d, cos), hn::LoadU(d, sin));
    x.v = turn_spread_fused<T>(pairs.second, hn::LoadU(d, cos + lanes<T>), hn::LoadU(d, sin + lanes<T>));
  } else {
    x = turn_fused<T>(x, hn::LoadU(d, cos), hn::LoadU(d, sin));
  }
  hn::StoreU(x.u, d, place.turned_u);
  hn::StoreU(x.v, d, place.turned_v);
}

/// `count` pairs, too few for vectors, through a buffer.
template <class Function, bool interleaved, class T>
HWY_INLINE void map_and_turn_rest(const PlaceOfPairs<T>& place, std::int64_t count, const T* cos, const T* sin) {
  HWY_ALIGN T x[2 * lanes<T>] = {}, features[2 * lanes<T>], turned[2 * lanes<T>];
  const std::int64_t first = interleaved ? 2 * count : count;  // the rest of pairs in halves lies apart
  std::copy_n(place.x_u, first, x);
  if constexpr (!interleaved) std::copy_n(place.x_v, count, x + lanes<T>);
  const PlaceOfPairs<T> buffer{x, x + lanes<T>, features, features + lanes<T>, turned, turned + lanes<T>};
  map_and_turn_pairs<Function, interleaved>(buffer, cos, sin);
  std::copy_n(features, first, place.features_u);
  std::copy_n(turned, first, place.turned_u);
  if constexpr (!interleaved) {
    std::copy_n(buffer.features_v, count, place.features_v);
    std::copy_n(buffer.turned_v, count, place.turned_v);
  }
}

template <class Function, bool interleaved, class T>
void map_and_turn_rows(const RowsToMapAndTurn<T>& rows) noexcept {
  const std::int64_t num_pairs = rows.num_pairs, second = interleaved ? lanes<T> : num_pairs;
  const std::int64_t angles = interleaved ? 2 : 1;  // values that stand for the cosine of a pair, and for its sine
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const T* const x = rows.x + i * rows.x_step;
    T *const features = rows.features + i * 2 * num_pairs, *const turned = rows.turned + i * 2 * num_pairs;
    const T *const cos = rows.arranged + i * rows.arranged_step, *const sin = cos + angles * round_up(num_pairs, lanes<T>);
    for (std::int64_t j = 0; j < num_pairs; j += lanes<T>) {
      const std::int64_t u = interleaved ? 2 * j : j, v = u + second;
      const PlaceOfPairs<T> place{x + u, x + v, features + u, features + v, turned + u, turned + v};
      if (j + lanes<T> <= num_pairs) map_and_turn_pairs<Function, interleaved>(place, cos + angles * j, sin + angles * j);
      else map_and_turn_rest<Function, interleaved>(place, num_pairs - j, cos + angles * j, sin + angles * j);
    }
  }
}

template <class Function, class T>
void map_and_turn(const RowsToMapAndTurn<T>& rows) noexcept {
  if (rows.interleaved) map_and_turn_rows<Function, true>(rows);
  else map_and_turn_rows<Function, false>(rows);
}

template <class Function, class T>
constexpr ChannelMap<T> channel_map = {map_channels<Function, T>, map_and_turn<Function, T>};

// ---- exponents ----

template <class T>
T largest(const T* x, std::int64_t length, T least) noexcept {
  const Tag<T> d;
  Vec<T> most = hn::Set(d, least);
  std::int64_t i = 0;
  for (; i + lanes<T> <= length; i += lanes<T>) {
    const Vec<T> v = hn::LoadU(d, x + i);
    most = hn::IfThenElse(hn::Le(v, most), most, v);
  }
  HWY_ALIGN T lane[hn::MaxLanes(Tag<T>())];
  hn::Store(most, d, lane);
  for (const T value : lane) least = value <= least ? least : value;
  for (; i < length; ++i) least = x[i] <= least ? least : x[i];
  return least;
}

template <class T>
void exp_below(T largest, T* x, std::int64_t length) noexcept {
  map(x, length, x, [=](Vec<T> v) ROTARY_LAMBDA { return exp_of_nonpositive<T>(hn::Sub(v, hn::Set(Tag<T>(), largest))); });
}

// ---- denominators ----

/// Where vectors of features lie: whole ones, or one that is the rest of a row.
template <class T>
struct WholeVectors {
  HWY_INLINE Vec<T> load(const T* from) const { return hn::LoadU(Tag<T>(), from); }
  HWY_INLINE void store(Vec<T> v, T* to) const { hn::StoreU(v, Tag<T>(), to); }
};
template <class T>
struct RestOfVector {
  std::int64_t length;

  HWY_INLINE Vec<T> load(const T* from) const { return load_rest(from, length); }
  HWY_INLINE void store(Vec<T> v, T* to) const {
    HWY_ALIGN T rest[hn::MaxLanes(Tag<T>())];
    hn::Store(v, Tag<T>(), rest);
    std::copy_n(rest, length, to);
  }
};

/// f(place, count, first): the vectors of a row, `count` at a time.
template <class T, class F>
HWY_INLINE void each_vectors(std::int64_t width, const F& f) {
  std::int64_t first = 0;
  for (; first + 4 * lanes<T> <= width; first += 4 * lanes<T>) {
    f(WholeVectors<T>(), std::integral_constant<int, 4>(), first);
  }
  for (; first + lanes<T> <= width; first += lanes<T>) f(WholeVectors<T>(), std::integral_constant<int, 1>(), first);
  if (first < width) f(RestOfVector<T>{width - first}, std::integral_constant<int, 1>(), first);
}

/// g sum + more; no gates: sum + more.
template <class T>
HWY_INLINE Vec<T> joined(Vec<T> sum, Vec<T> more, const T* gates, std::int64_t row) {
  return gates == nullptr ? hn::Add(sum, more) : hn::MulAdd(sum, hn::Set(Tag<T>(), gates[row]), more);
}

template <class T>
void add_up(const RowsToAdd<T>& rows) noexcept {
  each_vectors<T>(rows.width, [&](auto place, auto count, std::int64_t first) ROTARY_LAMBDA {
    Vec<T> sum[count];
    unroll<count>([&](auto v) ROTARY_LAMBDA { sum[v] = place.load(rows.sum + first + v * lanes<T>); });
    const T* x = rows.x + first;
    for (std::int64_t i = 0; i < rows.rows; ++i, x += rows.width) {
      unroll<count>([&](auto v) ROTARY_LAMBDA { sum[v] = joined<T>(sum[v], place.load(x + v * lanes<T>), rows.gates, i); });
    }
    unroll<count>([&](auto v) ROTARY_LAMBDA { place.store(sum[v], rows.sum + first + v * lanes<T>); });
  });
}

template <class T>
HWY_INLINE T dot(const T* x, const T* y, std::int64_t width) {
  Vec<T> sum = hn::Zero(Tag<T>());
  each_vectors<T>(width, [&](auto place, auto count, std::int64_t first) ROTARY_LAMBDA {
    unroll<count>([&](auto v) ROTARY_LAMBDA {
      const std::int64_t f = first + v * lanes<T>;
      sum = hn::MulAdd(place.load(x + f), place.load(y + f), sum);
    });
  });
  return sum_of_lanes<T>(sum);
}

template <class T>
void dots(const RowDots<T>& rows) noexcept {
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    rows.out[i] = dot(rows.x + i * rows.width, rows.y + i * rows.y_step, rows.width);
  }
}

/// A vector of products per row, and then their sums, many rows at once.
template <class T>
void running_dots(const RunningDots<T>& dots) noexcept {
  const Tag<T> d;
  T* const products = dots.room;
  std::fill_n(products, dots.rows * lanes<T>, T{0});
  each_vectors<T>(dots.width, [&](auto place, auto count, std::int64_t first) ROTARY_LAMBDA {
    Vec<T> sum[count];
    unroll<count>([&](auto v) ROTARY_LAMBDA { sum[v] = place.load(dots.before + first + v * lanes<T>); });
    const T *x = dots.x + first, *more = dots.more + first;
    for (std::int64_t i = 0; i < dots.rows; ++i, x += dots.width, more += dots.width) {
      Vec<T> product = hn::Load(d, products + i * lanes<T>);
      unroll<count>([&](auto v) ROTARY_LAMBDA {
        sum[v] = joined<T>(sum[v], place.load(more + v * lanes<T>), dots.gates, i);
        product = hn::MulAdd(place.load(x + v * lanes<T>), sum[v], product);
      });
      hn::Store(product, d, products + i * lanes<T>);
    }
  });
  std::int64_t row = 0;
  for (; row + lanes<T> <= dots.rows; row += lanes<T>)
    hn::StoreU(sums_of_lanes(products + row * lanes<T>), d, dots.out + row);
  for (; row < dots.rows; ++row) dots.out[row] = sum_of_lanes<T>(hn::Load(d, products + row * lanes<T>));
}

/// Whether 1 / divisor is a number like any other.
template <class T>
HWY_INLINE bool has_reciprocal(T divisor) {
  constexpr T largest = sizeof(T) == 4 ? T(0x1p125) : T(0x1p1021);
  const T size = divisor < 0 ? -divisor : divisor;
  return (size <= largest) & (size * largest >= 1);
}

template <class T>
bool reciprocals(const T* divisors, std::int64_t length, T* out) noexcept {
  bool all = true;
  for (std::int64_t i = 0; i < length; ++i) {
    all &= has_reciprocal(divisors[i]);
    out[i] = 1 / divisors[i];
  }
  return all;
}

template <class T>
void divide(const RowsToDivide<T>& rows) noexcept {
  const Tag<T> d;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const T divisor = rows.divisors[i];
    const T* const x = rows.x + i * rows.x_step;
    T* const out = rows.out + i * rows.out_step;
    if (divisor == 0) {
      std::fill_n(out, rows.width, T{0});
    } else if (has_reciprocal(divisor)) {
      const Vec<T> factor = hn::Set(d, 1 / divisor);
      map(x, rows.width, out, [&](Vec<T> v) ROTARY_LAMBDA { return hn::Mul(v, factor); });
    } else {
      map(x, rows.width, out, [&](Vec<T> v) ROTARY_LAMBDA { return hn::Div(v, hn::Set(d, divisor)); });
    }
  }
}

template <class T>
const LinearKernels<T>* kernels() noexcept {
  static constexpr LinearKernels<T> table = {channel_map<Identity, T>,
                                             channel_map<EluPlus1, T>,
                                             channel_map<Relu, T>,
                                             largest<T>,
                                             exp_below<T>,
                                             add_up<T>,
                                             dots<T>,
                                             running_dots<T>,
                                             reciprocals<T>,
                                             divide<T>};
  return &table;
}

}  // namespace

const LinearKernels<float>* linear_kernels_float() noexcept { return kernels<float>(); }
const LinearKernels<double>* linear_kernels_double() noexcept { return kernels<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary {

template <>
const LinearKernels<float>& linear_kernels() noexcept {
  return *ROTARY_KERNEL(linear_kernels_float)();
}
template <>
const LinearKernels<double>& linear_kernels() noexcept {
  return *ROTARY_KERNEL(linear_kernels_double)();
}

}  // namespace rotary
#endif
