#include "kernels/attention_backward.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/exp-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The block of sums that, with one vector of each operand, fills the register file: `panel` x `vectors`, or fewer vectors of
// more rows.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int panel = 8, most_vectors = 4;  // 32 registers
constexpr int block_rows[] = {0, 16, 12, 8, 6};
#else
constexpr int panel = 4, most_vectors = 3;  // 16 registers
constexpr int block_rows[] = {0, 8, 6, 4};
#endif
constexpr int vectors = 3;
constexpr bool has_many_registers = panel == 8;

template <class T>
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));
template <class T>
constexpr std::int64_t group_keys = vectors* lanes<T>;

template <class T>
bool all_finite(const T* numbers, std::int64_t length) noexcept {
  const Tag<T> d;
  Vec<T> not_finite = hn::Zero(d);  // as x - x is of infinities and NaN
  std::int64_t i = 0;
  for (; i + lanes<T> <= length; i += lanes<T>) {
    const Vec<T> x = hn::LoadU(d, numbers + i);
    not_finite = hn::Or(not_finite, hn::Sub(x, x));
  }
  bool finite = hn::AllTrue(d, hn::Eq(not_finite, hn::Zero(d)));
  for (; i < length; ++i) finite = finite && std::isfinite(numbers[i]);
  return finite;
}

template <class T>
T dot(const T* a, const T* b, std::int64_t length) noexcept {
  const Tag<T> d;
  Vec<T> sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes<T> <= length; i += lanes<T>) sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < length; ++i) sum += a[i] * b[i];
  return sum;
}

/// block[r][v] += sum over n < length of factor(n, r) * b[n * step + v], for v < width.
template <int rows, int width, int block_width = width, class T, class Factor>
HWY_INLINE void add_product(Vec<T> (&block)[rows * block_width], const Factor& factor, const T* b, std::int64_t step,
                            std::int64_t length) {
  const auto take = [&](std::int64_t n, const T* from) ROTARY_LAMBDA {
    Vec<T> row[width];
    unroll<width>([&](auto v) ROTARY_LAMBDA { row[v] = hn::Load(Tag<T>(), from + lanes<T> * v); });
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      const Vec<T> broadcast = hn::Set(Tag<T>(), factor(n, r));
      unroll<width>([&](auto v) ROTARY_LAMBDA {
        block[r * block_width + v] = hn::MulAdd(row[v], broadcast, block[r * block_width + v]);
      });
    });
  };
  std::int64_t n = 0;
  for (; n + 2 <= length; n += 2) {
    take(n, b + n * step);
    take(n + 1, b + (n + 1) * step);
  }
  if (n < length) take(n, b + n * step);
}

/// body(how many vectors of keys the rows of a panel see) as a constant; not where they see none.
template <class T, class Body>
HWY_INLINE void with_vectors_seen(const T* end, const Body& body) {
  const T most = *std::max_element(end, end + panel);
  if (most > 2 * lanes<T>) body(std::integral_constant<int, 3>());
  else if (most > lanes<T>) body(std::integral_constant<int, 2>());
  else if (most > 0) body(std::integral_constant<int, 1>());
}

template <class T>
HWY_INLINE void clear_panel(T* numbers) {
  for (std::int64_t i = 0; i < panel * group_keys<T>; i += lanes<T>) hn::Store(hn::Zero(Tag<T>()), Tag<T>(), numbers + i);
}

/// Of the rows from `row` on, and the first `width` vectors of keys.
template <int width, class T>
HWY_INLINE void multiply_panel(const RowsByKeys<T>& p, std::int64_t row, Vec<T> (&block)[panel * width]) {
  p.ahead->fetch();
  const T* from[panel];
  unroll<panel>([&](auto r) ROTARY_LAMBDA { from[r] = p.rows + (row + r) * p.step; });
  unroll<panel * width>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Zero(Tag<T>()); });
  add_product<panel, width>(
      block, [&](std::int64_t n, auto r) ROTARY_LAMBDA { return from[r][n]; }, p.columns, group_keys<T>, p.width);
}

/// The place of a vector of a panel among the numbers of all rows.
template <int width, class T>
HWY_INLINE std::int64_t place(std::int64_t row, int i) {
  return (row + i / width) * group_keys<T> + i % width * lanes<T>;
}

template <int width, class T>
HWY_NOINLINE void store_panel(const RowsByKeys<T>& p, std::int64_t row, T* products) {
  Vec<T> block[panel * width];
  multiply_panel<width>(p, row, block);
  unroll<panel * width>([&](auto i) ROTARY_LAMBDA { hn::Store(block[i], Tag<T>(), products + place<width, T>(row, i)); });
}

/// body(product, row, vector of keys, its place) for the first `width` vectors of a panel. `results` are going to be stored at
/// those places.
template <int width, class T, class Body>
HWY_INLINE void each_product(const RowsByKeys<T>& p, std::int64_t row, T* results, const Body& body) {
  if constexpr (has_many_registers) {
    Vec<T> block[panel * width];
    multiply_panel<width>(p, row, block);
    unroll<panel * width>([&](auto i)
                              ROTARY_LAMBDA { body(block[i], row + i / width, i % width, place<width, T>(row, i)); });
  } else {  // what the body needs would contend with the sums for registers
    store_panel<width>(p, row, results);
    unroll<panel * width>([&](auto i) ROTARY_LAMBDA {
      const std::int64_t at = place<width, T>(row, i);
      body(hn::Load(Tag<T>(), results + at), row + i / width, i % width, at);
    });
  }
}

template <class T>
void weigh(const RowsByKeys<T>& scores, const T* lse, T* weights) noexcept {
  const Tag<T> d;
  for (std::int64_t row = 0; row < scores.num_rows; row += panel) {
    each_product<vectors>(scores, row, weights, [&](Vec<T> score, std::int64_t r, int, std::int64_t at) ROTARY_LAMBDA {
      hn::Store(exp_of_nonpositive<T>(hn::Sub(score, hn::Set(d, lse[r]))), d, weights + at);
    });
  }
}

template <class T>
void weigh_by_rules(const RowsByKeys<T>& scores, const T* lse, const ScoreRules<T>& rules, T* weights) noexcept {
  const Tag<T> d;
  const Vec<T> minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  const auto weigh_one = [&](Vec<T> score, std::int64_t row, int v, std::int64_t at) ROTARY_LAMBDA {
    if (rules.softcap != 0) {
      const Vec<T> cap = hn::Set(d, rules.softcap), t = tanh<T>(hn::Div(score, cap));
      hn::Store(hn::NegMulAdd(t, t, hn::Set(d, T{1})), d, rules.slopes + at);
      score = hn::Mul(cap, t);
    }
    const Vec<T> key = hn::Iota(d, static_cast<T>(lanes<T> * v));
    auto counts = hn::And(hn::Ge(key, hn::Set(d, rules.begin[row])), hn::Lt(key, hn::Set(d, rules.end[row])));
    if (rules.added != nullptr) {
      const Vec<T> added = hn::Load(d, rules.added + at);
      counts = hn::AndNot(hn::Eq(added, minus_infinity), counts);
      score = hn::Add(score, added);
    }
    const Vec<T> weight = exp_of_nonpositive<T>(hn::Sub(score, hn::Set(d, lse[row])));
    hn::Store(hn::IfThenElseZero(counts, weight), d, weights + at);
  };
  for (std::int64_t row = 0; row < scores.num_rows; row += panel) {
    clear_panel(weights + row * group_keys<T>);
    with_vectors_seen(rules.end + row,
                      [&](auto width) ROTARY_LAMBDA { each_product<width>(scores, row, weights, weigh_one); });
  }
}

template <class T>
void differentiate(const RowsByKeys<T>& products, const T* delta, const T* weights, const T* slopes, const T* end,
                   T* dscore) noexcept {
  const Tag<T> d;
  const auto differentiate_one = [&](Vec<T> product, std::int64_t row, int, std::int64_t at) ROTARY_LAMBDA {
    const Vec<T> weight = hn::Load(d, weights + at);
    Vec<T> gradient = hn::Mul(weight, hn::Sub(product, hn::Set(d, delta[row])));
    if (slopes != nullptr) gradient = hn::Mul(gradient, hn::Load(d, slopes + at));
    hn::Store(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), gradient), d, dscore + at);
  };
  for (std::int64_t row = 0; row < products.num_rows; row += panel) {
    if (end == nullptr) {
      each_product<vectors>(products, row, dscore, differentiate_one);
    } else {
      clear_panel(dscore + row * group_keys<T>);
      with_vectors_seen(end + row,
                        [&](auto width) ROTARY_LAMBDA { each_product<width>(products, row, dscore, differentiate_one); });
    }
  }
}

template <class T>
void add_to_keys(const T* rows, std::int64_t step, std::int64_t num_rows, const T* weights, const T* end, T* sums,
                 std::int64_t width, LinesAhead& ahead) noexcept {
  std::int64_t begin[vectors] = {};  // the first row that sees keys of a vector; all rows before see none from there on
  for (int v = 0; end != nullptr && v < vectors; ++v) {
    begin[v] = std::find_if(end, end + num_rows, [&](T e) { return e > static_cast<T>(v * lanes<T>); }) - end;
  }
  for (std::int64_t channel = 0; channel < width; channel += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    T* const at = sums + channel * group_keys<T>;
    unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Load(Tag<T>(), at + lanes<T> * i); });
    const auto add = [&](auto seen, std::int64_t first, std::int64_t after) ROTARY_LAMBDA {
      const T* const from = rows + first * step + channel;
      add_product<panel, seen, vectors>(
          block, [&](std::int64_t n, auto r) ROTARY_LAMBDA { return from[n * step + r]; }, weights + first * group_keys<T>,
          group_keys<T>, after - first);
    };
    add(std::integral_constant<int, 1>(), begin[0], begin[1]);
    add(std::integral_constant<int, 2>(), begin[1], begin[2]);
    add(std::integral_constant<int, 3>(), begin[2], num_rows);
    unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { hn::Store(block[i], Tag<T>(), at + lanes<T> * i); });
  }
}

template <class T>
struct QueryGradients {
  const T* dscore;
  std::int64_t num_rows;
  const std::int64_t* end;
  const T* key_rows;
  T* dqueries;
  std::int64_t step;
};

/// `width` vectors of channels from `channel` on.
template <int width, class T>
HWY_INLINE void add_to_channels(const QueryGradients<T>& q, std::int64_t channel) {
  constexpr int rows = block_rows[width];
  constexpr std::int64_t w = group_keys<T>;
  for (std::int64_t row = 0; row < q.num_rows; row += rows) {
    Vec<T> block[rows * width];
    T* const at = q.dqueries + row * q.step + channel;
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      unroll<width>([&](auto v)
                        ROTARY_LAMBDA { block[r * width + v] = hn::Load(Tag<T>(), at + r * q.step + lanes<T> * v); });
    });
    const std::int64_t end = *std::max_element(q.end + row, q.end + row + rows);
    for (std::int64_t key = 0; key < end; key += w) {
      const T* const from = q.dscore + key * row_tile + row * w;
      add_product<rows, width>(
          block, [&](std::int64_t n, auto r) ROTARY_LAMBDA { return from[r * w + n]; }, q.key_rows + key * q.step + channel,
          q.step, std::min(w, end - key));
    }
    unroll<rows>([&](auto r) ROTARY_LAMBDA {
      unroll<width>([&](auto v)
                        ROTARY_LAMBDA { hn::Store(block[r * width + v], Tag<T>(), at + r * q.step + lanes<T> * v); });
    });
  }
}

template <class T>
void add_to_queries(const T* dscore, std::int64_t num_rows, const std::int64_t* end, const T* key_rows, T* dqueries,
                    std::int64_t step) noexcept {
  const QueryGradients<T> q{dscore, num_rows, end, key_rows, dqueries, step};
  std::int64_t channel = 0;
  const auto left = [&] { return (step - channel) / lanes<T>; };
  // The widest blocks, but no single vector at the end where it can be avoided.
  const auto fits = [&](std::int64_t width) { return left() >= width && left() != width + 1; };
  for (; fits(most_vectors); channel += most_vectors * lanes<T>) add_to_channels<most_vectors>(q, channel);
  for (; fits(3); channel += 3 * lanes<T>) add_to_channels<3>(q, channel);
  for (; left() >= 2; channel += 2 * lanes<T>) add_to_channels<2>(q, channel);
  if (left() == 1) add_to_channels<1>(q, channel);
}

template <class T>
const AttentionBackwardKernels<T>* kernels() noexcept {
  static constexpr AttentionBackwardKernels<T> table = {
      group_keys<T>,    panel,          lanes<T>,         all_finite<T>, dot<T>, weigh<T>, weigh_by_rules<T>,
      differentiate<T>, add_to_keys<T>, add_to_queries<T>};
  return &table;
}

}  // namespace

const AttentionBackwardKernels<float>* attention_backward_kernels_float() noexcept { return kernels<float>(); }
const AttentionBackwardKernels<double>* attention_backward_kernels_double() noexcept { return kernels<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary {

template <>
const AttentionBackwardKernels<float>& attention_backward_kernels() noexcept {
  return *ROTARY_KERNEL(attention_backward_kernels_float)();
}
template <>
const AttentionBackwardKernels<double>& attention_backward_kernels() noexcept {
  return *ROTARY_KERNEL(attention_backward_kernels_double)();
}

}  // namespace rotary
#endif
