#include "kernels/attention.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "kernels/exp-inl.h"
#include "kernels/products.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A p x rows block, p = panel, rows = vectors * lanes, plus one vector of each operand fills the register file.
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int panel = 8;  // 32 registers
#else
constexpr int panel = 4;  // 16 registers
#endif
constexpr int vectors = 3;

template <class T>
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));
template <class T>
constexpr std::int64_t rows = vectors* lanes<T>;

/// block[i][row] += sum over n < length of a[n][i] * b[n][row]
template <class T>
HWY_INLINE void add_product(Vec<T> (&block)[panel * vectors], const T* a, const T* b, std::int64_t length) {
  const auto step = [&](const T* a_step, const T* b_step) ROTARY_LAMBDA {
    Vec<T> row[vectors];
    unroll<vectors>([&](auto j) ROTARY_LAMBDA { row[j] = hn::Load(Tag<T>(), b_step + lanes<T> * j); });
    unroll<panel>([&](auto i) ROTARY_LAMBDA {
      const Vec<T> broadcast = hn::Set(Tag<T>(), a_step[i]);
      unroll<vectors>(
          [&](auto j) ROTARY_LAMBDA { block[i * vectors + j] = hn::MulAdd(row[j], broadcast, block[i * vectors + j]); });
    });
  };
  std::int64_t n = 0;
  for (; n + 2 <= length; n += 2) {
    step(a + n * panel, b + n * rows<T>);
    step(a + (n + 1) * panel, b + (n + 1) * rows<T>);
  }
  if (n < length) step(a + n * panel, b + n * rows<T>);
}

template <class T>
HWY_INLINE void store_block(const Vec<T> (&block)[panel * vectors], T* out) {
  unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { hn::Store(block[i], Tag<T>(), out + lanes<T> * i); });
}

// queries [head_dim][rows]; keys [panel][head_dim][p], p keys side by side; values [panel][tile_keys][p], p channels side by
// side, and a line between panels: otherwise what is stored of a key would fall on few sets of the first cache. Both products are
// one loop: a p x rows block in registers, p numbers broadcast against the rows at each step.

std::int64_t packed_width(std::int64_t head_dim) noexcept { return head_dim; }

template <class T>
constexpr std::int64_t value_panel_step = tile_keys* panel + 64 / sizeof(T);
template <class T>
std::int64_t packed_values(std::int64_t value_dim) noexcept {
  return (value_dim + panel - 1) / panel * value_panel_step<T>;
}

template <class T>
void pack_queries(const T* x, const T* scales, std::int64_t head_dim, T* queries) noexcept {
  const Tag<T> d;
  product_kernels<T>().transpose(x, rows<T>, head_dim, queries, rows<T>);
  for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
    const Vec<T> scale = hn::Load(d, scales + row);
    for (T* at = queries + row; at < queries + head_dim * rows<T>; at += rows<T>) {
      hn::Store(hn::Mul(scale, hn::Load(d, at)), d, at);
    }
  }
}

template <class T>
void pack_keys(const T* x, std::int64_t head_dim, std::int64_t first, T* keys) noexcept {
  product_kernels<T>().transpose(x, panel, head_dim, keys + first * head_dim, panel);
}

template <class T>
bool pack_values(const T* x, std::int64_t x_step, std::int64_t count, std::int64_t value_dim, std::int64_t first,
                 T* values) noexcept {
  const hn::CappedTag<T, panel> d;
  constexpr int step = static_cast<int>(hn::MaxLanes(d));
  auto not_finite = hn::Zero(d);  // as x - x is of infinities and NaN
  const auto put = [&](const T* from, T* to) ROTARY_LAMBDA {
    unroll<panel / step>([&](auto i) ROTARY_LAMBDA {
      const auto number = hn::LoadU(d, from + i * step);
      not_finite = hn::Or(not_finite, hn::Sub(number, number));
      hn::StoreU(number, d, to + i * step);
    });
  };
  for (std::int64_t key = 0; key < count; ++key) {
    const T* const row = x + key * x_step;
    T* to = values + (first + key) * panel;
    std::int64_t channel = 0;
    for (; channel + panel <= value_dim; channel += panel, to += value_panel_step<T>) put(row + channel, to);
    if (channel < value_dim) {
      T rest[panel] = {};
      for (std::int64_t i = channel; i < value_dim; ++i) rest[i - channel] = row[i];
      put(rest, to);
    }
  }
  return hn::AllTrue(d, hn::Eq(not_finite, hn::Zero(d)));
}

template <class T>
void score(const T* keys, std::int64_t first, std::int64_t num_keys, const T* queries, std::int64_t head_dim, T* scores,
           LinesAhead& ahead) noexcept {
  for (std::int64_t key = 0; key < num_keys; key += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Zero(Tag<T>()); });
    add_product<T>(block, keys + (first + key) * head_dim, queries, head_dim);
    store_block<T>(block, scores + key * rows<T>);
  }
}

template <class T>
void accumulate(const T* values, std::int64_t first, std::int64_t num_keys, T* weights, T* out, std::int64_t value_dim,
                LinesAhead& ahead) noexcept {
  for (std::int64_t channel = 0; channel < value_dim; channel += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    T* const sums = out + channel * rows<T>;
    unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Load(Tag<T>(), sums + lanes<T> * i); });
    add_product<T>(block, values + channel / panel * value_panel_step<T> + first * panel, weights, num_keys);
    store_block<T>(block, sums);
  }
}

template <class T>
void softcap(T* scores, std::int64_t num_keys, T cap) noexcept {
  const Tag<T> d;
  const Vec<T> limit = hn::Set(d, cap);
  for (std::int64_t i = 0; i < num_keys * rows<T>; i += lanes<T>) {
    hn::Store(hn::Mul(limit, tanh<T>(hn::Div(hn::Load(d, scores + i), limit))), d, scores + i);
  }
}

template <class T>
void add_mask(T* scores, std::int64_t num_keys, const T* mask) noexcept {
  const Tag<T> d;
  const Vec<T> minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (std::int64_t i = 0; i < num_keys * rows<T>; i += lanes<T>) {
    const Vec<T> m = hn::Load(d, mask + i);
    hn::Store(hn::IfThenElse(hn::Eq(m, minus_infinity), m, hn::Add(hn::Load(d, scores + i), m)), d, scores + i);
  }
}

template <class T>
void hide(T* scores, std::int64_t num_keys, const T* begin, const T* end) noexcept {
  const Tag<T> d;
  const Vec<T> minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const Vec<T> index = hn::Set(d, static_cast<T>(key));
    for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
      T* const at = scores + key * rows<T> + row;
      const auto seen = hn::And(hn::Ge(index, hn::Load(d, begin + row)), hn::Lt(index, hn::Load(d, end + row)));
      hn::Store(hn::IfThenElse(seen, hn::Load(d, at), minus_infinity), d, at);
    }
  }
}

/// Multiplies sum and the columns of out by exp(old_max - max).
template <class T>
HWY_INLINE void rescale(const Vec<T> (&old_max)[vectors], const Vec<T> (&max)[vectors], Vec<T> (&sum)[vectors], T* out,
                        std::int64_t value_dim) {
  const Tag<T> d;
  Vec<T> factor[vectors];
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    factor[j] = exp_of_nonpositive<T>(hn::Sub(old_max[j], max[j]));
    sum[j] = hn::Mul(sum[j], factor[j]);
  });
  for (std::int64_t channel = 0; channel < value_dim; ++channel) {
    unroll<vectors>([&](auto j) ROTARY_LAMBDA {
      T* const at = out + channel * rows<T> + lanes<T> * j;
      hn::Store(hn::Mul(factor[j], hn::Load(d, at)), d, at);
    });
  }
}

template <class T>
void weigh(T* scores, std::int64_t num_keys, T* max, T* sum, T* out, std::int64_t value_dim) noexcept {
  const Tag<T> d;
  const Vec<T> minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  Vec<T> old_max[vectors], new_max[vectors], total[vectors];
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    old_max[j] = new_max[j] = hn::Load(d, max + lanes<T> * j);
    total[j] = hn::Load(d, sum + lanes<T> * j);
  });
  std::int64_t key = 0;
  for (; key + 4 <= num_keys; key += 4) {  // two chains of two, as a maximum takes longer than to begin another
    unroll<vectors>([&](auto j) ROTARY_LAMBDA {
      const T* const at = scores + key * rows<T> + lanes<T> * j;
      const Vec<T> a = hn::Max(hn::Load(d, at), hn::Load(d, at + rows<T>));
      const Vec<T> b = hn::Max(hn::Load(d, at + 2 * rows<T>), hn::Load(d, at + 3 * rows<T>));
      new_max[j] = hn::Max(new_max[j], hn::Max(a, b));
    });
  }
  for (; key < num_keys; ++key) {
    unroll<vectors>([&](auto j) ROTARY_LAMBDA {
      new_max[j] = hn::Max(new_max[j], hn::Load(d, scores + key * rows<T> + lanes<T> * j));
    });
  }
  bool raised = false;
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    raised = raised || !hn::AllTrue(d, hn::Eq(old_max[j], new_max[j]));
    hn::Store(new_max[j], d, max + lanes<T> * j);
    // A row that has seen nothing yet: -infinity - 0 below, not -infinity - -infinity.
    new_max[j] = hn::IfThenZeroElse(hn::Eq(new_max[j], minus_infinity), new_max[j]);
  });
  if (raised) rescale<T>(old_max, new_max, total, out, value_dim);

  // The tile's own sum first: its rounding error grows with the tile, not with the number of keys before it.
  Vec<T> tile_sum[vectors];
  unroll<vectors>([&](auto j) ROTARY_LAMBDA { tile_sum[j] = hn::Zero(d); });
  for (key = 0; key < num_keys; ++key) {
    unroll<vectors>([&](auto j) ROTARY_LAMBDA {
      T* const at = scores + key * rows<T> + lanes<T> * j;
      const Vec<T> weight = exp_of_nonpositive<T>(hn::Sub(hn::Load(d, at), new_max[j]));
      hn::Store(weight, d, at);
      tile_sum[j] = hn::Add(tile_sum[j], weight);
    });
  }
  unroll<vectors>([&](auto j) ROTARY_LAMBDA { hn::Store(hn::Add(total[j], tile_sum[j]), d, sum + lanes<T> * j); });
}

template <class T>
void normalize(T* out, std::int64_t value_dim, const T* sum) noexcept {
  const Tag<T> d;
  for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
    const Vec<T> divisor = hn::Load(d, sum + row);
    const auto empty = hn::Eq(divisor, hn::Zero(d));
    const Vec<T> factor = hn::Div(hn::Set(d, T{1}), divisor);
    for (std::int64_t channel = 0; channel < value_dim; ++channel) {
      T* const at = out + channel * rows<T> + row;
      hn::Store(hn::IfThenZeroElse(empty, hn::Mul(hn::Load(d, at), factor)), d, at);
    }
  }
}

template <class T>
const AttentionKernels<T>* kernels() noexcept {
  static constexpr AttentionKernels<T> table = {
      rows<T>,        panel,    panel,      panel,       packed_width, packed_values<T>, pack_queries<T>, pack_keys<T>,
      pack_values<T>, score<T>, softcap<T>, add_mask<T>, hide<T>,      weigh<T>,         accumulate<T>,   normalize<T>};
  return &table;
}
const AttentionKernels<float>* attention_kernels_float() noexcept { return kernels<float>(); }
const AttentionKernels<double>* attention_kernels_double() noexcept { return kernels<double>(); }

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary {

template <>
const AttentionKernels<float>& attention_kernels() noexcept {
  return *ROTARY_KERNEL(attention_kernels_float)();
}
template <>
const AttentionKernels<double>& attention_kernels() noexcept {
  return *ROTARY_KERNEL(attention_kernels_double)();
}

}  // namespace rotary
#endif
