#include "kernels/decode.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/decode.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/attention.h"
#include "kernels/exp-inl.h"
#include "kernels/float16-inl.h"
#include "kernels/lane_sums-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = Vec<float>;

constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(Tag<float>()));
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int registers = 32;
#else
constexpr int registers = 16;
#endif
/// Heads that are computed together: more would not leave enough registers for their sums.
constexpr int most_heads_at_once = registers == 32 ? 8 : 4;

/// x as it is: g++ 12 would read a vector from memory again for each of its products.
HWY_INLINE F in_register(F x) {
#if HWY_TARGET == HWY_SCALAR
  // A number: it is in one.
#elif HWY_ARCH_X86
  __asm__("" : "+v"(x.raw));
#elif HWY_ARCH_ARM_A64
  __asm__("" : "+w"(x.raw));
#endif
  return x;
}

// ---- elements ----
// unit: how many vectors are read at once. Of bfloat16 two, the even channels and the odd ones, which costs least.

template <DType dtype>
struct Element;
template <>
struct Element<DType::f32> {
  static constexpr int unit = 1, bytes = 4;
  static HWY_INLINE void load(const std::byte* row, F* x) {
    x[0] = hn::LoadU(Tag<float>(), reinterpret_cast<const float*>(row));
  }
};
template <>
struct Element<DType::bf16> {
  static constexpr int unit = 2, bytes = 2;
  static HWY_INLINE void load(const std::byte* row, F* x) {
    float16s::load_bf16_pairs(reinterpret_cast<const std::uint16_t*>(row), x[0], x[1]);
  }
};
template <>
struct Element<DType::f16> {
  static constexpr int unit = 1, bytes = 2;
  static HWY_INLINE void load(const std::byte* row, F* x) {
    x[0] = float16s::load_f16(reinterpret_cast<const std::uint16_t*>(row));
  }
};
template <>
struct Element<DType::i8> {
  static constexpr int unit = 1, bytes = 1;
  static HWY_INLINE void load(const std::byte* row, F* x) {
    const hn::Rebind<std::int8_t, Tag<float>> narrow;
    const hn::RebindToSigned<Tag<float>> wide;
    const auto numbers = hn::LoadU(narrow, reinterpret_cast<const std::int8_t*>(row));
    x[0] = hn::ConvertTo(Tag<float>(), hn::PromoteTo(wide, numbers));
  }
};

// ---- fetching ahead ----

/// Rows that are needed next, fetched line by line.
class NextRows {
 public:
  NextRows(const std::byte* const* rows, std::int64_t count, std::int64_t row_bytes)
      : row_(rows), end_(rows + count), lines_of_row_(row_bytes / decode_row_bytes) {
    start_row();
  }

  template <int lines>
  HWY_INLINE void fetch() {
    for (int i = 0; i < lines; ++i) {
      __builtin_prefetch(line_, 0, 2);  // for the second-level cache: the first one is full
      line_ += step_;
      if (--left_ == 0) start_row();
    }
  }

 private:
  void start_row() {
    if (row_ == end_) {  // the last line again and again, or no line (nullptr), which costs nothing
      step_ = 0;
      left_ = std::numeric_limits<std::int64_t>::max();
      return;
    }
    line_ = *row_++;
    left_ = lines_of_row_;
  }

  const std::byte* const* row_;
  const std::byte* const* end_;
  std::int64_t lines_of_row_, left_ = 0, step_ = decode_row_bytes;
  const std::byte* line_ = nullptr;
};

/// Lines to be fetched beside so many vectors of elements, which are gone through so many times: as many as they take, at least one.
template <DType dtype, int vectors, int passes = 1>
constexpr int lines_of = std::max<int>(1, vectors* lanes* Element<dtype>::bytes / (decode_row_bytes * passes));

// ---- scores ----

/// partial[head][key]: vectors whose lanes sum to query . key, for `tile` keys; heads are `head_step` vectors apart.
template <DType dtype, int heads, int tile, int passes>
HWY_INLINE void dot_products(const std::byte* const* keys, const float* queries, std::int64_t head_dim, float* partial,
                             std::int64_t head_step, NextRows& ahead) {
  using E = Element<dtype>;
  const Tag<float> d;
  F sum[heads * tile];
  unroll<heads * tile>([&](auto i) ROTARY_LAMBDA { sum[i] = hn::Zero(d); });
  for (std::int64_t channel = 0; channel < head_dim; channel += E::unit * lanes) {
    ahead.fetch<lines_of<dtype, tile * E::unit, passes>>();
    F x[tile * E::unit];
    unroll<tile>([&](auto k) ROTARY_LAMBDA { E::load(keys[k] + channel * E::bytes, x + k * E::unit); });
    unroll<heads>([&](auto h) ROTARY_LAMBDA {
      unroll<E::unit>([&](auto u) ROTARY_LAMBDA {
        const F q = in_register(hn::Load(d, queries + h * head_dim + channel + u * lanes));
        unroll<tile>([&](auto k)
                         ROTARY_LAMBDA { sum[h * tile + k] = hn::MulAdd(q, x[k * E::unit + u], sum[h * tile + k]); });
      });
    });
  }
  unroll<heads>([&](auto h) ROTARY_LAMBDA {
    unroll<tile>([&](auto k) ROTARY_LAMBDA { hn::Store(sum[h * tile + k], d, partial + (h * head_step + k) * lanes); });
  });
}

/// Keys whose products are computed together: about two thirds of the registers hold sums. Of one head, which waits for memory,
/// fewer: rows are fetched best one after the other.
template <DType dtype, int heads>
constexpr int keys_at_once() {
  constexpr int sums = registers == 32 ? 16 : 8;
  constexpr int most = heads == 1 || (dtype == DType::bf16 && registers == 16) ? 4 : 8;
  return std::min<int>(lanes, std::min(most, std::max(1, sums / heads)));
}

/// Keys whose scores fit in one vector for all heads.
template <int heads>
constexpr int few_keys = static_cast<int>(lanes) / heads;

/// The sums of partial[head][few_keys], to scores[head].
template <int heads>
HWY_INLINE void store_few_sums(const float* partial, float* scores) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> indices;
  const F sums = sums_of_lanes(partial);
  unroll<heads>([&](auto h) ROTARY_LAMBDA {
    const auto from = hn::And(hn::Iota(indices, h * few_keys<heads>), hn::Set(indices, lanes - 1));
    hn::Store(hn::TableLookupLanes(sums, hn::IndicesFromVec(d, from)), d, scores + h * decode_keys);
  });
}

/// scores[head][key] of `count` keys, no more than a vector has lanes; those past the last one mean nothing.
template <DType dtype, int heads, int passes>
HWY_INLINE void score_vector(const std::byte* const* keys, std::int64_t count, const float* queries, std::int64_t head_dim,
                             float* partial, float* scores, NextRows& ahead) {
  constexpr int tile = keys_at_once<dtype, heads>();
  const bool are_few = heads > 1 && count <= few_keys<heads>;
  const std::int64_t head_step = are_few ? few_keys<heads> : lanes;
  std::int64_t key = 0;
  for (; key + tile <= count; key += tile) {
    dot_products<dtype, heads, tile, passes>(keys + key, queries, head_dim, partial + key * lanes, head_step, ahead);
  }
  for (; key < count; ++key) {
    dot_products<dtype, heads, 1, passes>(keys + key, queries, head_dim, partial + key * lanes, head_step, ahead);
  }
  if (are_few) return store_few_sums<heads>(partial, scores);
  for (int h = 0; h < heads; ++h) {
    hn::Store(sums_of_lanes(partial + h * lanes * lanes), Tag<float>(), scores + h * decode_keys);
  }
}

/// Times that keys are gone through: no more heads at once than keys, so that a number is loaded for as many products as can be.
template <int heads>
constexpr int score_passes = heads <= 4 ? 1 : heads / 4;

/// scores[head][key] of all keys of the step, where each is a row; those past the last one mean nothing.
template <DType dtype, int heads>
HWY_INLINE void score_rows(const DecodeStep& step, const DecodeSums& sums, const float* queries, float* partial,
                           float* scores, NextRows& ahead) {
  constexpr int passes = score_passes<heads>, at_once = heads / passes;
  for (std::int64_t first = 0; first < step.count; first += lanes) {
    const std::int64_t count = std::min(step.count - first, lanes);
    for (int h = 0; h < heads; h += at_once) {
      score_vector<dtype, at_once, passes>(step.keys + first, count, queries + h * sums.head_dim, sums.head_dim, partial,
                                           scores + h * decode_keys + first, ahead);
    }
  }
}

/// The same where keys are lanes: two vectors of them at once, so that a number of a query serves both, and no lanes are summed.
template <DType dtype, int heads>
HWY_INLINE void score_lanes(const DecodeStep& step, const DecodeSums& sums, const float* queries, float* scores,
                            NextRows& ahead) {
  using E = Element<dtype>;
  constexpr int vectors = 2;
  const Tag<float> d;
  for (std::int64_t first = 0; first < step.count; first += vectors * lanes) {
    const std::byte* keys[vectors];
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t key = first + v * lanes < step.count ? first + v * lanes : first;
      keys[v] = step.keys[key / key_lanes * key_lanes] + key % key_lanes * (E::unit * E::bytes);
    }
    F sum[heads * vectors];
    unroll<heads * vectors>([&](auto i) ROTARY_LAMBDA { sum[i] = hn::Zero(d); });
    for (std::int64_t channel = 0; channel < sums.head_dim; channel += E::unit) {
      ahead.fetch<lines_of<dtype, vectors * E::unit>>();
      F x[vectors * E::unit];
      unroll<vectors>([&](auto v) ROTARY_LAMBDA { E::load(keys[v] + channel * (key_lanes * E::bytes), x + v * E::unit); });
      unroll<heads>([&](auto h) ROTARY_LAMBDA {
        unroll<E::unit>([&](auto u) ROTARY_LAMBDA {
          const F q = hn::Set(d, queries[h * sums.head_dim + channel + u]);
          unroll<vectors>([&](auto v) ROTARY_LAMBDA {
            sum[h * vectors + v] = hn::MulAdd(q, x[v * E::unit + u], sum[h * vectors + v]);
          });
        });
      });
    }
    unroll<heads>([&](auto h) ROTARY_LAMBDA {
      unroll<vectors>([&](auto v) ROTARY_LAMBDA {
        if (v == 0 || first + v * lanes < step.count) {
          hn::Store(sum[h * vectors + v], d, scores + h * decode_keys + first + v * lanes);
        }
      });
    });
  }
}

/// scores[head][decode_keys]: those of the keys of the step that are seen, filled up to whole vectors with -infinity.
template <DType dtype, int heads>
HWY_INLINE void score(const DecodeStep& step, const DecodeSums& sums, const float* queries, float* partial, float* scores,
                      NextRows& ahead) {
  if (sums.keys_are_lanes) score_lanes<dtype, heads>(step, sums, queries, scores, ahead);
  else score_rows<dtype, heads>(step, sums, queries, partial, scores, ahead);
  const Tag<float> d;
  const F minus_infinity = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::int64_t first = 0; first < step.count; first += lanes) {
    const auto up_to = [&](std::int64_t key) {
      return hn::FirstN(d, static_cast<std::size_t>(std::max<std::int64_t>(key - first, 0)));
    };
    const auto seen = hn::AndNot(up_to(step.hidden), up_to(step.count));
    for (int h = 0; h < heads; ++h) {
      float* const at = scores + h * decode_keys + first;
      F s = hn::Load(d, at);
      if constexpr (dtype == DType::i8) s = hn::Mul(s, hn::Load(d, step.key_scales + first));
      hn::Store(hn::IfThenElse(seen, s, minus_infinity), d, at);
    }
  }
}

// ---- softmax ----

HWY_INLINE void multiply(float* x, std::int64_t length, float factor) {
  const Tag<float> d;
  for (std::int64_t i = 0; i < length; i += lanes) hn::Store(hn::Mul(hn::Set(d, factor), hn::Load(d, x + i)), d, x + i);
}

HWY_INLINE float exp_of(float x) { return hn::GetLane(exp_of_nonpositive<float>(hn::Set(Tag<float>(), x))); }

/// A score may lie so far above its reference: hardly any step after the first raises one.
constexpr int most_above_reference = 3;

/// Whether a score of some head exceeds its reference by more than most_above_reference.
template <int heads>
HWY_INLINE bool any_exceeds(const DecodeStep& step, const float* scores, const float* references) {
  const Tag<float> d;
  auto exceeds = hn::Gt(hn::Zero(d), hn::Zero(d));
  for (int h = 0; h < heads; ++h) {
    const F limit = hn::Set(d, references[h] + most_above_reference);
    for (std::int64_t i = 0; i < step.count; i += lanes) {
      exceeds = hn::Or(exceeds, hn::Gt(hn::Load(d, scores + h * decode_keys + i), limit));
    }
  }
  return !hn::AllFalse(d, exceeds);
}

/// Takes the largest score of the head for its reference, if that is larger; what was summed becomes less.
HWY_INLINE void raise_reference(const DecodeStep& step, const float* scores, float& reference, float& sum, float* out,
                                std::int64_t value_dim) {
  const Tag<float> d;
  F largest = hn::Load(d, scores);
  for (std::int64_t i = lanes; i < step.count; i += lanes) largest = hn::Max(largest, hn::Load(d, scores + i));
  const float most = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (!(most > reference)) return;
  if (reference != -std::numeric_limits<float>::infinity()) {
    const float factor = exp_of(reference - most);
    sum *= factor;
    multiply(out, value_dim, factor);
  }
  reference = most;
}

/// Turns the scores of one head into weights, and returns their sum.
template <DType dtype>
HWY_INLINE float weigh(const DecodeStep& step, float* scores, float reference) {
  const Tag<float> d;
  const bool sees_none = reference == -std::numeric_limits<float>::infinity();  // -infinity - 0 below
  const F subtracted = hn::Set(d, sees_none ? 0.0f : reference);
  F total = hn::Zero(d);
  for (std::int64_t i = 0; i < step.count; i += lanes) {
    F weight = exp_of_score<float>(hn::Sub(hn::Load(d, scores + i), subtracted), log2_weight_of_reference);
    total = hn::Add(total, weight);
    if constexpr (dtype == DType::i8) weight = hn::Mul(weight, hn::Load(d, step.value_scales + i));
    hn::Store(weight, d, scores + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// ---- values ----

/// out[head][channel …] += weights . values, `width` vectors of channels at a time.
template <DType dtype, int heads, int width>
HWY_INLINE void add_values(const DecodeStep& step, const float* weights, float* out, std::int64_t value_dim,
                           std::int64_t channel, NextRows& ahead) {
  using E = Element<dtype>;
  const Tag<float> d;
  F sum[heads * width];
  unroll<heads>([&](auto h) ROTARY_LAMBDA {
    unroll<width>([&](auto c)
                      ROTARY_LAMBDA { sum[h * width + c] = hn::Load(d, out + h * value_dim + channel + c * lanes); });
  });
  for (std::int64_t key = step.hidden; key < step.count; ++key) {
    ahead.fetch<lines_of<dtype, width>>();
    const std::byte* const row = step.values[key] + channel * E::bytes;
    F weight[heads];
    unroll<heads>([&](auto h) ROTARY_LAMBDA { weight[h] = hn::Set(d, weights[h * decode_keys + key]); });
    unroll<width / E::unit>([&](auto c) ROTARY_LAMBDA {
      F x[E::unit];
      E::load(row + c * E::unit * lanes * E::bytes, x);
      unroll<E::unit>([&](auto u) ROTARY_LAMBDA {
        unroll<heads>([&](auto h) ROTARY_LAMBDA {
          constexpr int at = h * width + c * E::unit + u;
          sum[at] = hn::MulAdd(weight[h], x[u], sum[at]);
        });
      });
    });
  }
  unroll<heads>([&](auto h) ROTARY_LAMBDA {
    unroll<width>([&](auto c)
                      ROTARY_LAMBDA { hn::Store(sum[h * width + c], d, out + h * value_dim + channel + c * lanes); });
  });
}

/// The channels from `channel` on, in pieces of `width` vectors and then of smaller ones.
template <DType dtype, int heads, int width>
HWY_INLINE void add_all_values(const DecodeStep& step, const float* weights, float* out, std::int64_t value_dim,
                               std::int64_t channel, NextRows& ahead) {
  for (; channel + width * lanes <= value_dim; channel += width * lanes) {
    add_values<dtype, heads, width>(step, weights, out, value_dim, channel, ahead);
  }
  if constexpr (width > Element<dtype>::unit) {
    if (channel < value_dim) {
      add_all_values<dtype, heads, width / 2>(step, weights, out, value_dim, channel, ahead);
    }
  }
}

// ---- a step ----

template <DType dtype, int heads>
void step_of(const DecodeStep& step, const DecodeStep* next, const DecodeSums& sums, std::int64_t first_head,
             bool fetches) noexcept {
  float* const scores = sums.scratch;
  float* const partial = scores + heads * decode_keys;
  float* const out = sums.out + first_head * sums.value_dim;
  constexpr int bytes = Element<dtype>::bytes;
  NextRows values(step.values, fetches ? step.count : 0, sums.value_dim * bytes);
  score<dtype, heads>(step, sums, sums.queries + first_head * sums.head_dim, partial, scores, values);
  float* const references = sums.reference + first_head;
  if (any_exceeds<heads>(step, scores, references)) {
    for (int h = 0; h < heads; ++h) {
      raise_reference(step, scores + h * decode_keys, references[h], sums.sum[first_head + h], out + h * sums.value_dim,
                      sums.value_dim);
    }
  }
  for (int h = 0; h < heads; ++h) sums.sum[first_head + h] += weigh<dtype>(step, scores + h * decode_keys, references[h]);

  constexpr int width = std::max(Element<dtype>::unit, std::min(8, (registers == 32 ? 16 : 8) / heads));
  NextRows keys(next != nullptr ? next->keys : nullptr, next != nullptr && fetches ? next->count : 0,
                sums.head_dim * bytes);
  add_all_values<dtype, heads, width>(step, scores, out, sums.value_dim, 0, keys);
}

template <DType dtype>
void step_of_all_heads(const DecodeStep& step, const DecodeStep* next, const DecodeSums& sums) noexcept {
  std::int64_t head = 0;
  const auto take = [&](auto heads) {
    constexpr int count = decltype(heads)::value;
    for (; head + count <= sums.num_heads; head += count) step_of<dtype, count>(step, next, sums, head, head == 0);
  };
  if constexpr (most_heads_at_once >= 8) take(std::integral_constant<int, 8>());
  take(std::integral_constant<int, 4>());
  take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 1>());
}

}  // namespace

void decode_step_kernel(const DecodeStep& step, const DecodeStep* next, const DecodeSums& sums) noexcept {
  switch (sums.dtype) {
    case DType::f32: return step_of_all_heads<DType::f32>(step, next, sums);
    case DType::f16: return step_of_all_heads<DType::f16>(step, next, sums);
    case DType::bf16: return step_of_all_heads<DType::bf16>(step, next, sums);
    default: return step_of_all_heads<DType::i8>(step, next, sums);
  }
}

// bfloat16 has the even channels of two vectors first, then the odd ones: see Element.

void arrange_channels_kernel(DType dtype, float factor, float* row, std::int64_t length) noexcept {
  if (dtype != DType::bf16) return multiply(row, length, factor);
  const Tag<float> d;
  const F by = hn::Set(d, factor);
  for (std::int64_t i = 0; i < length; i += 2 * lanes) {
    F even, odd;
    hn::LoadInterleaved2(d, row + i, even, odd);
    hn::Store(hn::Mul(by, even), d, row + i);
    hn::Store(hn::Mul(by, odd), d, row + i + lanes);
  }
}

void restore_channels_kernel(DType dtype, float factor, float* row, std::int64_t length) noexcept {
  if (dtype != DType::bf16) return multiply(row, length, factor);
  const Tag<float> d;
  const F by = hn::Set(d, factor);
  for (std::int64_t i = 0; i < length; i += 2 * lanes) {
    const F even = hn::Load(d, row + i), odd = hn::Load(d, row + i + lanes);
    hn::StoreInterleaved2(hn::Mul(by, even), hn::Mul(by, odd), d, row + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/dispatch.h"

namespace rotary {

void decode_step(const DecodeStep& step, const DecodeStep* next, const DecodeSums& sums) noexcept {
  ROTARY_KERNEL(decode_step_kernel)(step, next, sums);
}
void arrange_channels(DType dtype, float factor, float* row, std::int64_t length) noexcept {
  ROTARY_KERNEL(arrange_channels_kernel)(dtype, factor, row, length);
}
void restore_channels(DType dtype, float factor, float* row, std::int64_t length) noexcept {
  ROTARY_KERNEL(restore_channels_kernel)(dtype, factor, row, length);
}

}  // namespace rotary
#endif
