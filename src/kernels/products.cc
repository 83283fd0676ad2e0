#include "kernels/products.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/products.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

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

/// Lines that lie side by side.
struct Run {
  std::uintptr_t line, end;  ///< equal: none
};

/// What is still to be fetched of some rows.
class RunsAhead {
 public:
  RunsAhead(const RowsAhead* rows, int count) : rows_(rows), end_(rows + count) { next(); }

  Run run() const noexcept { return run_; }
  void keep(Run run) noexcept { run_ = run; }

  HWY_NOINLINE Run next() noexcept {
    while (rows_ != end_ && row_ == rows_->rows) {
      ++rows_;
      row_ = 0;
    }
    if (rows_ == end_) return run_ = {0, 0};
    const std::uintptr_t line = rows_->first + static_cast<std::uintptr_t>(row_++ * rows_->step_bytes);
    return run_ = {line, line + static_cast<std::uintptr_t>(rows_->row_bytes)};
  }

 private:
  const RowsAhead *rows_, *end_;
  std::int64_t row_ = 0;
  Run run_ = {0, 0};
};

HWY_INLINE void fetch(Run& run, RunsAhead& ahead) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): see RowsAhead
  __builtin_prefetch(reinterpret_cast<const void*>(run.line), 0, 2);
  run.line += 64;
  if (run.line >= run.end) run = ahead.next();
}

/// `rows` rows and `vectors` vectors of columns from the given ones on.
template <int rows, int vectors, class D, class T>
HWY_INLINE void multiply_block(const Product<T>& p, std::int64_t row, std::int64_t column, RunsAhead& ahead) {
  const D d;
  const T* const x = p.x + row * p.x_step;
  T* const out = p.out + row * p.out_step + column;
  hn::Vec<D> sums[rows * vectors];
  unroll<rows>([&](auto r) ROTARY_LAMBDA {
    unroll<vectors>([&](auto v) ROTARY_LAMBDA {
      sums[r * vectors + v] = p.adds ? hn::LoadU(d, out + r * p.out_step + v * lanes<D>) : hn::Zero(d);
    });
  });
  const T* y = p.y + column;
  const auto take = [&](std::int64_t at, auto first) ROTARY_LAMBDA {
    hn::Vec<D> from[vectors];
    unroll<vectors>([&](auto v) ROTARY_LAMBDA { from[v] = hn::LoadU(d, y + v * lanes<D>); });
    unroll<rows - first>([&](auto i) ROTARY_LAMBDA {
      constexpr int r = first + i;
      const hn::Vec<D> factor = hn::Set(d, x[r * p.x_step + at]);
      unroll<vectors>([&](auto v)
                          ROTARY_LAMBDA { sums[r * vectors + v] = hn::MulAdd(factor, from[v], sums[r * vectors + v]); });
    });
    y += p.y_step;
  };
  const std::int64_t shared = p.lower ? row : p.inner;  // by all rows of the block
  std::int64_t n = 0;
  Run run = ahead.run();
  for (; n < shared && run.line != run.end; ++n) {
    fetch(run, ahead);
    take(n, std::integral_constant<int, 0>());
  }
  ahead.keep(run);
  for (; n < shared; ++n) take(n, std::integral_constant<int, 0>());
  if (p.lower) unroll<rows>([&](auto r) ROTARY_LAMBDA { take(row + r, r); });
  if (p.factors != nullptr) {
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      const hn::Vec<D> factor = hn::Set(d, p.factors[row + r]);
      unroll<vectors>([&](auto v) ROTARY_LAMBDA { sums[r * vectors + v] = hn::Mul(sums[r * vectors + v], factor); });
    });
  }
  unroll<rows>([&](auto r) ROTARY_LAMBDA {
    unroll<vectors>([&](auto v)
                        ROTARY_LAMBDA { hn::StoreU(sums[r * vectors + v], d, out + r * p.out_step + v * lanes<D>); });
  });
}

/// Some columns of all blocks of rows, so that what is read of y is at hand for the next rows.
template <int vectors, class D, class T>
HWY_INLINE void multiply_columns(const Product<T>& p, std::int64_t column, RunsAhead& ahead) {
  for (std::int64_t row = 0; row + block_rows <= p.rows; row += block_rows) {
    const std::int64_t end = p.up_to_diagonal ? row + block_rows : p.columns;
    if (column >= end) continue;
    if constexpr (vectors > 1) {
      if (column + lanes<D> >= end) {
        multiply_block<block_rows, 1, D>(p, row, column, ahead);
        continue;
      }
    }
    multiply_block<block_rows, vectors, D>(p, row, column, ahead);
  }
}

template <class T>
HWY_INLINE void multiply_blocks(const Product<T>& p, RunsAhead& ahead) {
  constexpr std::int64_t whole = lanes<Whole<T>>, part = lanes<Short<T>>;
  std::int64_t column = 0;
  for (; column + 2 * whole <= p.columns; column += 2 * whole) multiply_columns<2, Whole<T>>(p, column, ahead);
  for (; column + whole <= p.columns; column += whole) multiply_columns<1, Whole<T>>(p, column, ahead);
  for (; column + part <= p.columns; column += part) multiply_columns<1, Short<T>>(p, column, ahead);
  for (; column < p.columns; ++column) multiply_columns<1, Single<T>>(p, column, ahead);
}

template <class T>
HWY_INLINE void multiply_row(const Product<T>& p, std::int64_t row, RunsAhead& ahead) {
  constexpr std::int64_t whole = lanes<Whole<T>>, part = lanes<Short<T>>;
  std::int64_t column = 0;
  for (; column + 4 * whole <= p.columns; column += 4 * whole) multiply_block<1, 4, Whole<T>>(p, row, column, ahead);
  for (; column + whole <= p.columns; column += whole) multiply_block<1, 1, Whole<T>>(p, row, column, ahead);
  for (; column + part <= p.columns; column += part) multiply_block<1, 1, Short<T>>(p, row, column, ahead);
  for (; column < p.columns; ++column) multiply_block<1, 1, Single<T>>(p, row, column, ahead);
}

template <class T>
void multiply(const Product<T>& p) noexcept {
  RunsAhead ahead(p.ahead, p.num_ahead);
  multiply_blocks(p, ahead);
  for (std::int64_t row = p.rows / block_rows * block_rows; row < p.rows; ++row) multiply_row(p, row, ahead);
}

// ---- as many rows as D has lanes, of as many columns as a short vector has ----

/// Rows that become lanes, a short vector of each: the first ones, and in the upper half of a longer vector those after them.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_side_by_side(const T* row, std::int64_t step) {
  if constexpr (lanes<D> == lanes<Short<T>>) {
    return hn::LoadU(D(), row);
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> half;
    return hn::Combine(D(), hn::LoadU(half, row + lanes<Short<T>> * step), hn::LoadU(half, row));
#endif
  }
}

#if HWY_TARGET == HWY_SCALAR
template <class D, class T>
HWY_INLINE void transpose_strip(const T* x, std::int64_t, T* out, std::int64_t) {
  *out = *x;
}
template <class T>
using Strip = Short<T>;
#else
template <class D>
HWY_INLINE void transpose_strip(const float* x, std::int64_t x_step, float* out, std::int64_t out_step) {
  const D d;
  const hn::RepartitionToWide<D> two;
  const auto row = [&](int i) ROTARY_LAMBDA { return load_side_by_side<D>(x + i * x_step, x_step); };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  const auto pairs = [&](auto a, auto b) ROTARY_LAMBDA { return hn::BitCast(two, hn::InterleaveLower(d, a, b)); };
  const auto upper = [&](auto a, auto b) ROTARY_LAMBDA { return hn::BitCast(two, hn::InterleaveUpper(d, a, b)); };
  const auto low01 = pairs(r0, r1), low23 = pairs(r2, r3), high01 = upper(r0, r1), high23 = upper(r2, r3);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(two, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(two, low01, low23)), d, out + out_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(two, high01, high23)), d, out + 2 * out_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(two, high01, high23)), d, out + 3 * out_step);
}

template <class D>
HWY_INLINE void transpose_strip(const double* x, std::int64_t x_step, double* out, std::int64_t out_step) {
  const D d;
  const auto r0 = load_side_by_side<D>(x, x_step), r1 = load_side_by_side<D>(x + x_step, x_step);
  hn::StoreU(hn::InterleaveLower(d, r0, r1), d, out);
  hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, out + out_step);
}

/// 256 bits where there are.
template <class T>
using Strip = hn::CappedTag<T, 32 / sizeof(T)>;
#endif

/// Of the rows from `first` on all that D divides, and of all columns those that a short vector divides. Returns the row after.
template <class D, class T>
HWY_INLINE std::int64_t transpose_strips(const T* x, std::int64_t first, std::int64_t rows, std::int64_t columns, T* out,
                                         std::int64_t out_step) {
  const std::int64_t end = first + (rows - first) / lanes<D> * lanes<D>;
  for (std::int64_t c = 0; c + lanes<Short<T>> <= columns; c += lanes<Short<T>>) {
    for (std::int64_t r = first; r < end; r += lanes<D>) {
      transpose_strip<D>(x + r * columns + c, columns, out + c * out_step + r, out_step);
    }
  }
  return end;
}

template <class T>
void transpose(const T* x, std::int64_t rows, std::int64_t columns, T* out, std::int64_t out_step) noexcept {
  const std::int64_t whole_columns = columns / lanes<Short<T>> * lanes<Short<T>>;
  std::int64_t whole_rows = transpose_strips<Strip<T>>(x, 0, rows, columns, out, out_step);
  whole_rows = transpose_strips<Short<T>>(x, whole_rows, rows, columns, out, out_step);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) out[c * out_step + r] = x[r * columns + c];
  }
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
