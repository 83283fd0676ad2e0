#include "kernels/products.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "kernels/transpose-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Whole = hn::ScalableTag<T>;
/// 128 bits, for columns that fill no whole vector.
template <class T>
using Short = hn::CappedTag<T, 16 / sizeof(T)>;
/// 256 bits where there are.
template <class T>
using Middle = hn::CappedTag<T, 32 / sizeof(T)>;
template <class T>
using Single = hn::CappedTag<T, 1>;

template <class D>
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

// Rows that share what is read of y; with two vectors of sums each they fit the register file.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int block_rows = 8;
#else
constexpr int block_rows = 4;
#endif

/// The lines to fetch next: pairs of them, one after the other. Maybe one past the end of a row: counting each would cost more.
struct Lines {
  std::uintptr_t next;
  std::int64_t pairs;
};

/// What is still to be fetched of some rows. LinesAhead counts every line: too much to do within these loops.
class NextLines {
 public:
  NextLines(const RowsAhead* rows, int count) : rows_(rows), end_(rows + count) { next(); }

  Lines lines() const noexcept { return lines_; }
  void keep(const Lines& lines) noexcept { lines_ = lines; }

  HWY_NOINLINE Lines next() noexcept {
    while (rows_ != end_ && row_ == rows_->rows) {
      ++rows_;
      row_ = 0;
    }
    if (rows_ == end_) return lines_ = {0, 0};
    const std::uintptr_t line = rows_->first + static_cast<std::uintptr_t>(row_++ * rows_->step_bytes);
    return lines_ = {line, (rows_->row_bytes + 127) / 128};
  }

 private:
  const RowsAhead *rows_, *end_;
  std::int64_t row_ = 0;
  Lines lines_ = {};
};

HWY_INLINE void fetch(Lines& lines, NextLines& ahead) {
  if (lines.pairs == 0) return;
  unroll<2>([&](auto i) ROTARY_LAMBDA {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): see RowsAhead
    __builtin_prefetch(reinterpret_cast<const void*>(lines.next + 64 * i), 0, 2);
  });
  lines.next += 128;
  if (--lines.pairs == 0) lines = ahead.next();
}

/// Sums of `rows` rows and `vectors` vectors of columns, which stay in registers.
template <int rows, int vectors, class D>
struct BlockOfSums {
  hn::Vec<D> sums[rows * vectors];

  /// Adds, to rows from `first` on, x[r][0] times a row of y.
  template <int first, class T>
  HWY_INLINE void take(const T* x, std::int64_t x_step, const T* y) {
    const D d;
    hn::Vec<D> from[vectors];
    unroll<vectors>([&](auto v) ROTARY_LAMBDA { from[v] = hn::LoadU(d, y + v * lanes<D>); });
    unroll<rows - first>([&](auto i) ROTARY_LAMBDA {
      constexpr int r = first + i;
      const hn::Vec<D> factor = hn::Set(d, x[r * x_step]);
      unroll<vectors>([&](auto v)
                          ROTARY_LAMBDA { sums[r * vectors + v] = hn::MulAdd(factor, from[v], sums[r * vectors + v]); });
    });
  }

  /// `inner` of them for all rows. Few rounds, so that their end is foreseen.
  template <class T, class Meanwhile>
  HWY_INLINE void take_all(const T* x, std::int64_t x_step, const T* y, std::int64_t y_step, std::int64_t inner,
                           const Meanwhile& meanwhile) {
    std::int64_t n = 0;
    for (; n + 4 <= inner; n += 4, x += 4, y += 4 * y_step) {
      meanwhile();
      unroll<4>([&](auto i) ROTARY_LAMBDA { take<0>(x + i, x_step, y + i * y_step); });
    }
    for (; n < inner; ++n, ++x, y += y_step) take<0>(x, x_step, y);
  }

  /// f(sum, row, offset of its first column).
  template <class F>
  HWY_INLINE void each(const F& f) {
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      unroll<vectors>([&](auto v) ROTARY_LAMBDA { f(sums[r * vectors + v], r, v * lanes<D>); });
    });
  }
};

/// `rows` rows and `vectors` vectors of columns from the given ones on.
template <int rows, int vectors, class D, class T>
HWY_INLINE void multiply_block(const Product<T>& p, std::int64_t row, std::int64_t column, NextLines& ahead) {
  const D d;
  T* const out = p.out + row * p.out_step + column;
  const std::int64_t out_step = p.out_step;
  BlockOfSums<rows, vectors, D> block;
  if (p.adds) block.each([&](auto& sum, auto r, auto v) ROTARY_LAMBDA { sum = hn::LoadU(d, out + r * out_step + v); });
  else block.each([&](auto& sum, auto, auto) ROTARY_LAMBDA { sum = hn::Zero(d); });

  Lines lines = ahead.lines();
  block.take_all(p.x + row * p.x_step, p.x_step, p.y + column, p.y_step, p.inner,
                 [&]() ROTARY_LAMBDA { fetch(lines, ahead); });
  ahead.keep(lines);
  if (p.lower != nullptr) {
    const std::int64_t x_step = p.lower->x_step, y_step = p.lower->y_step;
    const T *const x = p.lower->x + row * x_step, *const y = p.lower->y + column;
    block.take_all(x, x_step, y, y_step, row, []() ROTARY_LAMBDA {});
    unroll<rows>([&](auto r) ROTARY_LAMBDA { block.template take<r>(x + row + r, x_step, y + (row + r) * y_step); });
  }
  if (p.factors != nullptr) {
    const T* const factors = p.factors + row;
    block.each([&](auto& sum, auto r, auto) ROTARY_LAMBDA { sum = hn::Mul(sum, hn::Set(d, factors[r])); });
  }
  block.each([&](auto& sum, auto r, auto v) ROTARY_LAMBDA { hn::StoreU(sum, d, out + r * out_step + v); });
}

/// Some columns of all blocks of rows, so that what is read of y is at hand for the next rows. A function by itself, and `p` a
/// copy: what no store can change stays in registers from block to block.
template <int rows, int vectors, class D, class T>
HWY_NOINLINE void multiply_columns(const Product<T> p, std::int64_t column, NextLines& ahead) {
  const std::int64_t last = p.rows / block_rows * block_rows;
  for (std::int64_t row = 0; row < last; row += rows) {
    const std::int64_t end = p.up_to_diagonal ? row + rows : p.columns;
    if (column >= end) continue;
    if constexpr (vectors == 2) {
      if (column + lanes<D> >= end) {
        multiply_block<rows, 1, D>(p, row, column, ahead);
        continue;
      }
    }
    multiply_block<rows, vectors, D>(p, row, column, ahead);
  }
}

template <class T>
HWY_INLINE void multiply_blocks(const Product<T>& p, NextLines& ahead) {
  constexpr std::int64_t whole = lanes<Whole<T>>, part = lanes<Short<T>>;
  std::int64_t column = 0;
  for (; p.adds && column + 4 * whole <= p.columns; column += 4 * whole) {
    multiply_columns<block_rows / 2, 4, Whole<T>>(p, column, ahead);
  }
  for (; column + 2 * whole <= p.columns; column += 2 * whole) multiply_columns<block_rows, 2, Whole<T>>(p, column, ahead);
  for (; column + whole <= p.columns; column += whole) multiply_columns<block_rows, 1, Whole<T>>(p, column, ahead);
  for (; column + part <= p.columns; column += part) multiply_columns<block_rows, 1, Short<T>>(p, column, ahead);
  for (; column < p.columns; ++column) multiply_columns<block_rows, 1, Single<T>>(p, column, ahead);
}

template <class T>
HWY_INLINE void multiply_row(const Product<T>& p, std::int64_t row, NextLines& ahead) {
  constexpr std::int64_t whole = lanes<Whole<T>>, part = lanes<Short<T>>;
  std::int64_t column = 0;
  for (; column + 4 * whole <= p.columns; column += 4 * whole) multiply_block<1, 4, Whole<T>>(p, row, column, ahead);
  for (; column + whole <= p.columns; column += whole) multiply_block<1, 1, Whole<T>>(p, row, column, ahead);
  for (; column + part <= p.columns; column += part) multiply_block<1, 1, Short<T>>(p, row, column, ahead);
  for (; column < p.columns; ++column) multiply_block<1, 1, Single<T>>(p, row, column, ahead);
}

template <class T>
void multiply(const Product<T>& p) noexcept {
  NextLines ahead(p.ahead, p.num_ahead);
  multiply_blocks(p, ahead);
  for (std::int64_t row = p.rows / block_rows * block_rows; row < p.rows; ++row) multiply_row(p, row, ahead);
}

// ---- squares of as many rows as a vector has lanes ----

template <class D, class T>
HWY_INLINE void transpose_square(const T* x, std::int64_t x_step, T* out, std::int64_t out_step) {
  hn::Vec<D> row[square_side<D>];
  unroll<square_side<D>>([&](auto r) ROTARY_LAMBDA { row[r] = hn::LoadU(D(), x + r * x_step); });
  transpose_in_registers<D>(row);
  unroll<square_side<D>>([&](auto r) ROTARY_LAMBDA { hn::StoreU(row[r], D(), out + r * out_step); });
}

/// In squares of D; what they leave at the right and below, in those of the shorter ones.
template <class D, class... Shorter, class T>
HWY_INLINE void transpose_by(const T* x, std::int64_t x_step, std::int64_t rows, std::int64_t columns, T* out,
                             std::int64_t out_step) {
  constexpr std::int64_t side = lanes<D>;
  const std::int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
  for (std::int64_t c = 0; c < whole_columns; c += side) {
    for (std::int64_t r = 0; r < whole_rows; r += side) {
      transpose_square<D>(x + r * x_step + c, x_step, out + c * out_step + r, out_step);
    }
  }
  if constexpr (sizeof...(Shorter) > 0) {
    transpose_by<Shorter...>(x + whole_columns, x_step, rows, columns - whole_columns, out + whole_columns * out_step,
                             out_step);
    transpose_by<Shorter...>(x + whole_rows * x_step, x_step, rows - whole_rows, whole_columns, out + whole_rows, out_step);
  }
}

template <class T>
void transpose(const T* x, std::int64_t rows, std::int64_t columns, T* out, std::int64_t out_step) noexcept {
  transpose_by<Whole<T>, Middle<T>, Short<T>, Single<T>>(x, columns, rows, columns, out, out_step);
}

/// `vectors` vectors of values from the given one on.
template <int vectors, bool joins, class D, class T>
HWY_INLINE void read_and_join_values(const TokenOfSum<T>& t, std::int64_t value) {
  const D d;
  hn::Vec<D> v[vectors], out[vectors], weight = hn::Zero(d);
  unroll<vectors>([&](auto i) ROTARY_LAMBDA {
    v[i] = hn::LoadU(d, t.v + value + i * lanes<D>);
    out[i] = hn::Zero(d);
  });
  const T *const of_query = t.a, *const of_key = t.b;
  const std::int64_t features = t.features, step = t.values;
  T* sum = t.sum + value;
  for (std::int64_t f = 0; f < features; ++f, sum += step) {
    const auto a = hn::Set(d, of_query[f]), b = hn::Set(d, of_key[f]);
    weight = hn::MulAdd(a, b, weight);
    unroll<vectors>([&](auto i) ROTARY_LAMBDA {
      const auto s = hn::LoadU(d, sum + i * lanes<D>);
      out[i] = hn::MulAdd(a, s, out[i]);
      if constexpr (joins) hn::StoreU(hn::MulAdd(b, v[i], s), d, sum + i * lanes<D>);
    });
  }
  unroll<vectors>([&](auto i)
                      ROTARY_LAMBDA { hn::StoreU(hn::MulAdd(weight, v[i], out[i]), d, t.out + value + i * lanes<D>); });
}

template <bool joins, class T>
HWY_INLINE void read_and_join_all(const TokenOfSum<T>& t) {
  std::int64_t value = 0;
  constexpr std::int64_t whole = lanes<Whole<T>>, part = lanes<Short<T>>;
  for (; value + 4 * whole <= t.values; value += 4 * whole) read_and_join_values<4, joins, Whole<T>>(t, value);
  for (; value + whole <= t.values; value += whole) read_and_join_values<1, joins, Whole<T>>(t, value);
  for (; value + part <= t.values; value += part) read_and_join_values<1, joins, Short<T>>(t, value);
  for (; value < t.values; ++value) read_and_join_values<1, joins, Single<T>>(t, value);
}

template <class T>
void read_and_join(const TokenOfSum<T>& t) noexcept {
  if (t.joins) read_and_join_all<true>(t);
  else read_and_join_all<false>(t);
}

template <class T>
const ProductKernels<T>* kernels() noexcept {
  static constexpr ProductKernels<T> table = {multiply<T>, transpose<T>, read_and_join<T>};
  return &table;
}

}  // namespace

const ProductKernels<float>* product_kernels_float() noexcept { return kernels<float>(); }
const ProductKernels<double>* product_kernels_double() noexcept { return kernels<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary {

template <>
const ProductKernels<float>& product_kernels() noexcept {
  return *ROTARY_KERNEL(product_kernels_float)();
}
template <>
const ProductKernels<double>& product_kernels() noexcept {
  return *ROTARY_KERNEL(product_kernels_double)();
}

}  // namespace rotary
#endif
