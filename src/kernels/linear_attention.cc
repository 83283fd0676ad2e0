#include "kernels/linear_attention.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/exp-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));

// Rows that share what is read of y; with two vectors of sums each they fit the register file.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int block_rows = 8;
#else
constexpr int block_rows = 4;
#endif

/// `rows` rows and `vectors` vectors of columns, from the given ones on, over the inner ones from `begin` to `end`.
template <int rows, int vectors, class T>
HWY_INLINE void add_block(const Product<T>& p, std::int64_t row, std::int64_t column, std::int64_t begin,
                          std::int64_t end) {
  const Tag<T> d;
  const T* const x = p.x + row * p.x_step;
  T* const out = p.out + row * p.out_step + column;
  Vec<T> sums[rows * vectors];
  unroll<rows>([&](auto r) ROTARY_LAMBDA {
    unroll<vectors>([&](auto v)
                        ROTARY_LAMBDA { sums[r * vectors + v] = hn::LoadU(d, out + r * p.out_step + v * lanes<T>); });
  });
  const T* y = p.y + begin * p.y_step + column;
  for (std::int64_t n = begin; n < end; ++n, y += p.y_step) {
    Vec<T> from[vectors];
    unroll<vectors>([&](auto v) ROTARY_LAMBDA { from[v] = hn::LoadU(d, y + v * lanes<T>); });
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      const Vec<T> factor = hn::Set(d, x[r * p.x_step + n]);
      unroll<vectors>([&](auto v)
                          ROTARY_LAMBDA { sums[r * vectors + v] = hn::MulAdd(factor, from[v], sums[r * vectors + v]); });
    });
  }
  unroll<rows>([&](auto r) ROTARY_LAMBDA {
    unroll<vectors>([&](auto v)
                        ROTARY_LAMBDA { hn::StoreU(sums[r * vectors + v], d, out + r * p.out_step + v * lanes<T>); });
  });
}

/// The columns that fill no vector.
template <class T>
void add_rest(const Product<T>& p, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t begin,
              std::int64_t end) {
  for (std::int64_t r = row; r < row + rows; ++r) {
    const T* const x = p.x + r * p.x_step;
    T* const out = p.out + r * p.out_step;
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t c = column; c < p.columns; ++c) out[c] += x[n] * p.y[n * p.y_step + c];
    }
  }
}

template <int rows, int vectors, class T>
HWY_INLINE void add_rows(const Product<T>& p, std::int64_t row, std::int64_t begin, std::int64_t end) {
  std::int64_t column = 0;
  for (; column + vectors * lanes<T> <= p.columns; column += vectors * lanes<T>) {
    add_block<rows, vectors>(p, row, column, begin, end);
  }
  for (; column + lanes<T> <= p.columns; column += lanes<T>) add_block<rows, 1>(p, row, column, begin, end);
  if (column < p.columns) add_rest(p, row, rows, column, begin, end);
}

template <class T>
void add_product(const Product<T>& p) noexcept {
  std::int64_t row = 0;
  for (; row + block_rows <= p.rows; row += block_rows) {
    add_rows<block_rows, 2>(p, row, 0, p.lower ? row + 1 : p.inner);
    for (std::int64_t r = row + 1; p.lower && r < row + block_rows; ++r) add_rows<1, 4>(p, r, row + 1, r + 1);
  }
  for (; row < p.rows; ++row) add_rows<1, 4>(p, row, 0, p.lower ? row + 1 : p.inner);
}

/// out = f(x), a vector at a time.
template <class T, class F>
HWY_INLINE void map(const T* x, std::int64_t length, T* out, const F& f) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + lanes<T> <= length; i += lanes<T>) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
  if (i == length) return;
  HWY_ALIGN T rest[hn::MaxLanes(Tag<T>())] = {};
  std::copy(x + i, x + length, rest);
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::copy(rest, rest + (length - i), out + i);
}

template <class T>
void elu_plus_1(const T* x, std::int64_t length, T* out) noexcept {
  map(x, length, out, [](Vec<T> v) ROTARY_LAMBDA {
    const Tag<T> d;
    const Vec<T> zero = hn::Zero(d);
    const auto above = hn::Gt(v, zero);
    return hn::IfThenElse(above, hn::Add(v, hn::Set(d, T{1})), exp_of_nonpositive<T>(hn::IfThenElse(above, zero, v)));
  });
}

template <class T>
void exp_below(T largest, T* x, std::int64_t length) noexcept {
  map(x, length, x, [=](Vec<T> v) ROTARY_LAMBDA { return exp_of_nonpositive<T>(hn::Sub(v, hn::Set(Tag<T>(), largest))); });
}

template <class T>
const LinearKernels<T>* kernels() noexcept {
  static constexpr LinearKernels<T> table = {add_product<T>, elu_plus_1<T>, exp_below<T>};
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
