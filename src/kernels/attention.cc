#include "kernels/attention.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/exp-inl.h"
#include "kernels/products.h"
#include "kernels/transpose-inl.h"
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

/// block[i][row] += sum over n < length of a[n][i] * b[n][row].
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
  for (; n + 4 <= length; n += 4, a += 4 * panel, b += 4 * rows<T>) {
    unroll<4>([&](auto i) ROTARY_LAMBDA { step(a + i * panel, b + i * rows<T>); });
  }
  for (; n < length; ++n, a += panel, b += rows<T>) step(a, b);
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

/// body(d, row, channel) for every square of rows and channels, the largest first; those that `channels` leave are smaller.
template <class T, std::size_t side = static_cast<std::size_t>(lanes<T>), class Body>
HWY_INLINE void for_squares(std::int64_t channel, std::int64_t channels, const Body& body) {
  using D = hn::CappedTag<T, side>;
  const std::int64_t end = channel + (channels - channel) / square_side<D> * square_side<D>;
  for (std::int64_t row = 0; row < rows<T>; row += square_side<D>) {
    for (std::int64_t i = channel; i < end; i += square_side<D>) body(D(), row, i);
  }
  if constexpr (side > 1) for_squares<T, side / 2>(end, channels, body);
}

template <class T>
void pack_queries(const T* x, const T* scales, std::int64_t head_dim, T* queries) noexcept {
  for_squares<T>(0, head_dim, [&](auto d, std::int64_t row, std::int64_t channel) ROTARY_LAMBDA {
    using D = decltype(d);
    hn::Vec<D> square[square_side<D>];
    unroll<square_side<D>>([&](auto i) ROTARY_LAMBDA { square[i] = hn::LoadU(d, x + (row + i) * head_dim + channel); });
    transpose_in_registers<D>(square);
    const auto scale = hn::Load(d, scales + row);
    unroll<square_side<D>>(
        [&](auto i) ROTARY_LAMBDA { hn::Store(hn::Mul(scale, square[i]), d, queries + (channel + i) * rows<T> + row); });
  });
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

// ---- softmax ----

/// What scores weigh beside a reference: 2^((score - subtracted) log2 e + shift). Where the reference is of moderate size,
/// nothing is subtracted, which saves a step: what rounding the shift costs, all weights of a row have in common.
template <class T>
struct WeightBeside {
  Vec<T> subtracted, shift;
  hn::Mask<Tag<T>> is_unset, is_moderate;

  explicit HWY_INLINE WeightBeside(Vec<T> reference) {
    const Tag<T> d;
    const Vec<T> power = hn::Set(d, T{log2_weight_of_reference});
    is_unset = hn::Eq(reference, hn::Set(d, -std::numeric_limits<T>::infinity()));
    is_moderate = hn::Lt(hn::Abs(reference), hn::Set(d, T{1 << 16}));
    shift = hn::IfThenElse(is_moderate, hn::NegMulAdd(reference, hn::Set(d, log2_e<T>), power), power);
    subtracted = hn::IfThenZeroElse(hn::Or(is_moderate, is_unset), reference);  // -infinity - 0, not - -infinity
  }

  HWY_INLINE Vec<T> of(Vec<T> score) const {
    return exp2<T, true>(hn::MulAdd(hn::Sub(score, subtracted), hn::Set(Tag<T>(), log2_e<T>), shift));
  }
};

/// A row tile's softmax while it goes through a part of a tile.
template <class T>
struct Weighing {
  HWY_ALIGN T shift[rows<T>];
  /// Of this part alone: its rounding error grows with the part, not with the number of keys before it.
  HWY_ALIGN T sum[rows<T>];
  bool are_moderate = true;  ///< all references
  T* weights;

  HWY_INLINE Weighing(T* weights_of_part, const SoftmaxOfRows<T>& softmax) : weights(weights_of_part) {
    const Tag<T> d;
    for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
      note(row, WeightBeside<T>(hn::Load(d, softmax.reference + row)));
      hn::Store(hn::Zero(d), d, sum + row);
    }
  }

  HWY_INLINE void note(std::int64_t row, const WeightBeside<T>& weight) {
    hn::Store(weight.shift, Tag<T>(), shift + row);
    are_moderate = are_moderate && hn::AllTrue(Tag<T>(), weight.is_moderate);
  }
};

template <class T>
HWY_INLINE void rescale(T* x, Vec<T> factor) {
  hn::Store(hn::Mul(factor, hn::Load(Tag<T>(), x)), Tag<T>(), x);
}

/// From weights beside one reference to those beside a higher one.
template <class T>
HWY_INLINE Vec<T> factor_between(Vec<T> from, Vec<T> to) {
  const Tag<T> d;
  const WeightBeside<T> lower(from), higher(to);
  const auto are_moderate = hn::And(lower.is_moderate, higher.is_moderate);
  const Vec<T> apart = hn::Mul(hn::Sub(from, to), hn::Set(d, log2_e<T>));
  const Vec<T> factor = exp2<T>(hn::IfThenElse(are_moderate, hn::Sub(higher.shift, lower.shift), apart));
  return hn::IfThenElse(hn::Eq(from, to), hn::Set(d, T{1}), factor);
}

/// Gives a vector of rows another reference, and rescales what there is of them: weights before `key`, and sums.
template <class T>
HWY_INLINE void raise(Weighing<T>& weighing, std::int64_t row, std::int64_t key, Vec<T> reference,
                      const SoftmaxOfRows<T>& softmax) {
  const Tag<T> d;
  const Vec<T> factor = factor_between<T>(hn::Load(d, softmax.reference + row), reference);
  hn::Store(reference, d, softmax.reference + row);
  rescale(weighing.sum + row, factor);
  rescale(softmax.sum + row, factor);
  for (std::int64_t n = 0; n < key; ++n) rescale(weighing.weights + n * rows<T> + row, factor);
  for (std::int64_t channel = 0; channel < softmax.value_dim; ++channel) {
    rescale(softmax.out + channel * rows<T> + row, factor);
  }
}

template <class T>
HWY_INLINE Vec<T> sum_of_panel(const Vec<T> (&weights)[panel]) {
  Vec<T> sum = weights[0];
  unroll<panel - 1>([&](auto i) ROTARY_LAMBDA { sum = hn::Add(sum, weights[i + 1]); });
  return sum;
}

template <class T>
HWY_INLINE Vec<T> largest_of_panel(const Vec<T> (&scores)[panel]) {
  Vec<T> largest = scores[0];
  unroll<panel - 1>([&](auto i) ROTARY_LAMBDA { largest = hn::Max(largest, scores[i + 1]); });
  return largest;
}

template <class T>
HWY_INLINE hn::Mask<Tag<T>> is_too_large(Vec<T> sum) {
  return hn::Gt(sum, hn::Set(Tag<T>(), static_cast<T>(most_of_panel)));
}

/// Scores of the panel from `key` on, in memory, become weights. Raises the reference of rows that have none yet, or of which
/// the panel would weigh too much, and rescales what there is of them.
template <class T>
HWY_NOINLINE void weigh_with_care(Weighing<T>& weighing, std::int64_t key, const SoftmaxOfRows<T>& softmax) noexcept {
  const Tag<T> d;
  weighing.are_moderate = true;
  for (std::int64_t row = 0; row < rows<T>;) {
    T* const at = weighing.weights + key * rows<T> + row;
    Vec<T> scores[panel], weights[panel];
    unroll<panel>([&](auto i) ROTARY_LAMBDA { scores[i] = hn::Load(d, at + i * rows<T>); });
    const Vec<T> reference = hn::Load(d, softmax.reference + row);
    const WeightBeside<T> weight(reference);
    unroll<panel>([&](auto i) ROTARY_LAMBDA { weights[i] = weight.of(scores[i]); });

    const Vec<T> sum = sum_of_panel<T>(weights), largest = largest_of_panel<T>(scores);
    const auto rises = hn::And(hn::Or(weight.is_unset, is_too_large<T>(sum)), hn::Gt(largest, reference));
    if (!hn::AllFalse(d, rises)) {
      raise(weighing, row, key, hn::IfThenElse(rises, largest, reference), softmax);
      continue;  // the same rows once more
    }
    unroll<panel>([&](auto i) ROTARY_LAMBDA { hn::Store(weights[i], d, at + i * rows<T>); });
    hn::Store(hn::Add(hn::Load(d, weighing.sum + row), sum), d, weighing.sum + row);
    weighing.note(row, weight);
    row += lanes<T>;
  }
}

/// Scores of the panel from `key` on become weights, on their way from registers to memory. That references need care shows
/// afterwards, in sums: so scores are kept.
template <class T>
HWY_INLINE void weigh_panel(const Vec<T> (&block)[panel * vectors], std::int64_t key, Weighing<T>& weighing,
                            const SoftmaxOfRows<T>& softmax) {
  const Tag<T> d;
  HWY_ALIGN T scores[panel * rows<T>];
  T* const to = weighing.weights + key * rows<T>;
  if (HWY_UNLIKELY(!weighing.are_moderate)) {
    store_block<T>(block, to);
    return weigh_with_care(weighing, key, softmax);
  }
  store_block<T>(block, scores);
  Vec<T> sums[vectors];
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    const Vec<T> shift = hn::Load(d, weighing.shift + lanes<T> * j);
    Vec<T> weights[panel];
    unroll<panel>([&](auto i) ROTARY_LAMBDA {
      weights[i] = exp2<T, true>(hn::MulAdd(block[i * vectors + j], hn::Set(d, log2_e<T>), shift));
      hn::Store(weights[i], d, to + lanes<T> * (i * vectors + j));
    });
    sums[j] = sum_of_panel<T>(weights);
  });
  auto too_large = is_too_large<T>(sums[0]);
  unroll<vectors - 1>([&](auto j) ROTARY_LAMBDA { too_large = hn::Or(too_large, is_too_large<T>(sums[j + 1])); });
  if (HWY_UNLIKELY(!hn::AllFalse(d, too_large))) {
    std::copy_n(scores, panel * rows<T>, to);
    return weigh_with_care(weighing, key, softmax);
  }
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    T* const sum = weighing.sum + lanes<T> * j;
    hn::Store(hn::Add(hn::Load(d, sum), sums[j]), d, sum);
  });
}

template <class T>
HWY_INLINE void finish(const Weighing<T>& weighing, const SoftmaxOfRows<T>& softmax) {
  const Tag<T> d;
  for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
    hn::Store(hn::Add(hn::Load(d, softmax.sum + row), hn::Load(d, weighing.sum + row)), d, softmax.sum + row);
  }
}

template <class T>
void weigh(T* scores, std::int64_t num_keys, const SoftmaxOfRows<T>& softmax) noexcept {
  const Tag<T> d;
  Weighing<T> weighing(scores, softmax);
  for (std::int64_t key = 0; key < num_keys; key += panel) {
    for (std::int64_t i = num_keys; i < key + panel; ++i) {  // what fills up the last panel
      std::fill_n(scores + i * rows<T>, rows<T>, -std::numeric_limits<T>::infinity());
    }
    Vec<T> block[panel * vectors];
    unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Load(d, scores + key * rows<T> + lanes<T> * i); });
    weigh_panel<T>(block, key, weighing, softmax);
  }
  finish(weighing, softmax);
}

/// Scores of a key, or -infinity where a row does not see it.
template <class T>
HWY_INLINE Vec<T> seen_scores(Vec<T> scores, Vec<T> key, Vec<T> begin, Vec<T> end) {
  const Vec<T> minus_infinity = hn::Set(Tag<T>(), -std::numeric_limits<T>::infinity());
  return hn::IfThenElse(hn::And(hn::Ge(key, begin), hn::Lt(key, end)), scores, minus_infinity);
}

template <class T>
HWY_INLINE void hide_in_panel(Vec<T> (&block)[panel * vectors], std::int64_t key, const SeenKeys<T>& seen) {
  const Tag<T> d;
  unroll<vectors>([&](auto j) ROTARY_LAMBDA {
    const Vec<T> begin = hn::Load(d, seen.begin + lanes<T> * j), end = hn::Load(d, seen.end + lanes<T> * j);
    unroll<panel>([&](auto i) ROTARY_LAMBDA {
      Vec<T>& scores = block[i * vectors + j];
      scores = seen_scores<T>(scores, hn::Set(d, static_cast<T>(key + i)), begin, end);
    });
  });
}

// ---- products ----

template <class T>
HWY_INLINE void score_panel(const KeysAndQueries<T>& p, std::int64_t key, Vec<T> (&block)[panel * vectors]) {
  unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Zero(Tag<T>()); });
  add_product<T>(block, p.keys + (p.first + key) * p.head_dim, p.queries, p.head_dim);
}

template <class T>
void score(const KeysAndQueries<T>& product, T* scores, LinesAhead& ahead) noexcept {
  for (std::int64_t key = 0; key < product.num_keys; key += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    score_panel<T>(product, key, block);
    store_block<T>(block, scores + key * rows<T>);
  }
}

template <class T>
void score_and_weigh(const KeysAndQueries<T>& product, const SeenKeys<T>& seen, T* weights, const SoftmaxOfRows<T>& softmax,
                     LinesAhead& ahead) noexcept {
  Weighing<T> weighing(weights, softmax);
  for (std::int64_t key = 0; key < product.num_keys; key += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    score_panel<T>(product, key, block);
    if (key < seen.all_begin || key + panel > seen.all_end) hide_in_panel<T>(block, key, seen);
    weigh_panel<T>(block, key, weighing, softmax);
  }
  finish(weighing, softmax);
}

template <class T>
void accumulate(const ValuesAndWeights<T>& p, LinesAhead& ahead) noexcept {
  for (std::int64_t channel = 0; channel < p.value_dim; channel += panel) {
    ahead.fetch();
    Vec<T> block[panel * vectors];
    T* const sums = p.out + channel * rows<T>;
    if (p.adds) unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Load(Tag<T>(), sums + lanes<T> * i); });
    else unroll<panel * vectors>([&](auto i) ROTARY_LAMBDA { block[i] = hn::Zero(Tag<T>()); });
    add_product<T>(block, p.values + channel / panel * value_panel_step<T> + p.first * panel, p.weights, p.num_keys);
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
void hide(T* scores, std::int64_t num_keys, const SeenKeys<T>& seen) noexcept {
  const Tag<T> d;
  for (std::int64_t key = 0; key < num_keys; ++key) {
    for (std::int64_t row = 0; row < rows<T>; row += lanes<T>) {
      T* const at = scores + key * rows<T> + row;
      const Vec<T> begin = hn::Load(d, seen.begin + row), end = hn::Load(d, seen.end + row);
      hn::Store(seen_scores<T>(hn::Load(d, at), hn::Set(d, static_cast<T>(key)), begin, end), d, at);
    }
  }
}

template <class T>
void write_rows(const T* out, std::int64_t value_dim, const T* sum, T* const* to) noexcept {
  for_squares<T>(0, value_dim, [&](auto d, std::int64_t row, std::int64_t channel) ROTARY_LAMBDA {
    using D = decltype(d);
    const auto divisor = hn::Load(d, sum + row), factor = hn::Div(hn::Set(d, T{1}), divisor);
    const auto empty = hn::Eq(divisor, hn::Zero(d));
    hn::Vec<D> square[square_side<D>];
    unroll<square_side<D>>([&](auto i) ROTARY_LAMBDA {
      square[i] = hn::IfThenZeroElse(empty, hn::Mul(hn::Load(d, out + (channel + i) * rows<T> + row), factor));
    });
    transpose_in_registers<D>(square);
    unroll<square_side<D>>([&](auto i) ROTARY_LAMBDA { hn::StoreU(square[i], d, to[row + i] + channel); });
  });
}

#if HWY_TARGET == HWY_SCALAR
constexpr bool has_score_and_weigh = false;  // numbers come from memory either way: what it would do is not worth its size
#else
constexpr bool has_score_and_weigh = true;
#endif

template <class T>
constexpr auto score_and_weigh_if_any() noexcept -> decltype(AttentionKernels<T>::score_and_weigh) {
  if constexpr (has_score_and_weigh) return score_and_weigh<T>;
  else return nullptr;
}

template <class T>
const AttentionKernels<T>* kernels() noexcept {
  static constexpr AttentionKernels<T> table = {rows<T>,
                                                panel,
                                                panel,
                                                panel,
                                                packed_width,
                                                packed_values<T>,
                                                pack_queries<T>,
                                                pack_keys<T>,
                                                pack_values<T>,
                                                score<T>,
                                                score_and_weigh_if_any<T>(),
                                                softcap<T>,
                                                add_mask<T>,
                                                hide<T>,
                                                weigh<T>,
                                                accumulate<T>,
                                                write_rows<T>};
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
