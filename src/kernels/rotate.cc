#include "kernels/rotate.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotate.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/float16-inl.h"
#include "kernels/pairs-inl.h"
#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

// ---- the rotation of a vector of pairs ----

template <class Lane>
HWY_INLINE Vec<Lane> fused_multiply_add(Vec<Lane> a, Vec<Lane> b, Vec<Lane> c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const Tag<Lane> d;
  constexpr std::size_t n = hn::MaxLanes(Tag<Lane>());
  HWY_ALIGN Lane x[n], y[n], z[n];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, x);
#endif
}

template <Rounding rounding, class Lane>
HWY_INLINE Vec<Lane> rounded(Vec<Lane> value) {
  if constexpr (rounding == Rounding::separate_bf16) return float16s::round_to_bf16(value);
  else if constexpr (rounding == Rounding::separate_f16) return float16s::round_to_f16(value);
  else return value;
}

template <Rounding rounding, class Lane>
HWY_INLINE Members<Lane> turn(Members<Lane> x, Vec<Lane> c, Vec<Lane> s) {
  if constexpr (rounding == Rounding::fused) {
    return turn_fused<Lane>(x, c, s);
  } else if constexpr (rounding == Rounding::always_fused) {
    return {fused_multiply_add<Lane>(x.u, c, hn::Neg(hn::Mul(x.v, s))), fused_multiply_add<Lane>(x.u, s, hn::Mul(x.v, c))};
  } else {
    const auto product = [](Vec<Lane> a, Vec<Lane> b) HWY_ATTR { return rounded<rounding, Lane>(hn::Mul(a, b)); };
    return {rounded<rounding, Lane>(hn::Sub(product(x.u, c), product(x.v, s))),
            rounded<rounding, Lane>(hn::Add(product(x.v, c), product(x.u, s)))};
  }
}

/// The same for pairs that lie side by side.
template <Rounding rounding, class Lane>
HWY_INLINE Vec<Lane> turn_spread(Members<Lane> x, Vec<Lane> cs, Vec<Lane> sc) {
  if constexpr (rounding == Rounding::fused) return turn_spread_fused<Lane>(x, cs, sc);
  const auto by_v = hn::Mul(x.v, sc);
  if constexpr (rounding == Rounding::always_fused) return fused_multiply_add<Lane>(x.u, cs, by_v);
  else return rounded<rounding, Lane>(hn::Add(rounded<rounding, Lane>(hn::Mul(x.u, cs)), rounded<rounding, Lane>(by_v)));
}

// ---- chunks: the pairs that are turned at once, per dtype and layout ----
//
// `pairs` of them; `half` and `interleaved` turn one chunk.

template <class Lane>
std::int64_t lanes() noexcept {
  return static_cast<std::int64_t>(hn::Lanes(Tag<Lane>()));
}

template <class T>
struct CosSin {
  Vec<T> c, s;

  CosSin() = default;
  HWY_INLINE CosSin(const T* cos, const T* sin) : c(hn::LoadU(Tag<T>(), cos)), s(hn::LoadU(Tag<T>(), sin)) {}
};
template <class T>
struct TwoCosSin {
  CosSin<T> first, second;

  TwoCosSin() = default;
  HWY_INLINE TwoCosSin(const T* cos, const T* sin) : first(cos, sin), second(cos + lanes<T>(), sin + lanes<T>()) {}
};

/// How elements reach lanes, and lanes elements.
template <class T>
struct AsTheyAre {
  using Lane = T;
  using Element = T;
  static HWY_INLINE Vec<T> load(const T* from) { return hn::LoadU(Tag<T>(), from); }
  static HWY_INLINE void store(Vec<T> value, T* to) { hn::StoreU(value, Tag<T>(), to); }
};
struct StoredFloat16 {
  using Lane = float;
  using Element = std::uint16_t;
  static HWY_INLINE Vec<float> load(const std::uint16_t* from) { return float16s::load_f16(from); }
  static HWY_INLINE void store(Vec<float> value, std::uint16_t* to) { float16s::store_f16(value, to); }
};
struct StoredBfloat16 {
  using Lane = float;
  using Element = std::uint16_t;
  static HWY_INLINE Vec<float> load(const std::uint16_t* from) { return float16s::load_bf16(from); }
};

/// A vector of first members and one of second ones, or two vectors of pairs that lie side by side.
template <class From, class To>
struct Vectors {
  using Lane = typename From::Lane;
  using Stored = typename From::Element;
  using Written = typename To::Element;
  template <bool interleaved>
  using Angles = std::conditional_t<interleaved, TwoCosSin<Lane>, CosSin<Lane>>;
  static std::int64_t pairs() noexcept { return lanes<Lane>(); }

  template <Rounding rounding>
  static HWY_INLINE void half(const Stored* u, const Stored* v, const CosSin<Lane>& angles, Written* out_u,
                              Written* out_v) {
    const auto turned = turn<rounding, Lane>({From::load(u), From::load(v)}, angles.c, angles.s);
    To::store(turned.u, out_u);
    To::store(turned.v, out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const Stored* x, const TwoCosSin<Lane>& angles, Written* out) {
    const auto pairs = spread<Lane>(From::load(x), From::load(x + lanes<Lane>()));
    To::store(turn_spread<rounding, Lane>(pairs.first, angles.first.c, angles.first.s), out);
    To::store(turn_spread<rounding, Lane>(pairs.second, angles.second.c, angles.second.s), out + lanes<Lane>());
  }
};

template <class T>
using Wide = Vectors<AsTheyAre<T>, AsTheyAre<T>>;
using Float16 = Vectors<StoredFloat16, StoredFloat16>;
template <class From>
using Widened = Vectors<From, AsTheyAre<float>>;

/// Half as many pairs as vectors have lanes, fused.
template <class T>
HWY_INLINE void half_of_fewer(const T* u, const T* v, const T* cos, const T* sin, T* out_u, T* out_v) {
  const hn::Half<Tag<T>> d;
  const auto x = hn::LoadU(d, u), y = hn::LoadU(d, v), c = hn::LoadU(d, cos), s = hn::LoadU(d, sin);
  hn::StoreU(hn::MulSub(x, c, hn::Mul(y, s)), d, out_u);
  hn::StoreU(hn::MulAdd(x, s, hn::Mul(y, c)), d, out_v);
}

/// A word holds two elements: an interleaved pair, or two neighbours of a half. A chunk has two vectors of words.
struct Bfloat16 {
  using Lane = float;
  using Stored = std::uint16_t;
  using Written = std::uint16_t;
  template <bool interleaved>
  using Angles = TwoCosSin<float>;
  static std::int64_t pairs() noexcept { return 2 * lanes<float>(); }
  template <Rounding rounding>
  static HWY_INLINE void half(const Stored* u, const Stored* v, const TwoCosSin<float>& angles, Stored* out_u,
                              Stored* out_v) {
    Members<float> even, odd;
    float16s::load_bf16_pairs(u, even.u, odd.u);
    float16s::load_bf16_pairs(v, even.v, odd.v);
    even = turn<rounding, float>(even, angles.first.c, angles.first.s);
    odd = turn<rounding, float>(odd, angles.second.c, angles.second.s);
    float16s::W rounded[4];
    float16s::round_up_to_bf16({even.u, odd.u, even.v, odd.v}, rounded);
    float16s::store_rounded_pairs(rounded[0], rounded[1], out_u);
    float16s::store_rounded_pairs(rounded[2], rounded[3], out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const Stored* x, const TwoCosSin<float>& angles, Stored* out) {
    const std::int64_t words = 2 * lanes<float>();
    Members<float> first, second;
    float16s::load_bf16_pairs(x, first.u, first.v);
    float16s::load_bf16_pairs(x + words, second.u, second.v);
    first = turn<rounding, float>(first, angles.first.c, angles.first.s);
    second = turn<rounding, float>(second, angles.second.c, angles.second.s);
    float16s::W rounded[4];
    float16s::round_up_to_bf16({first.u, first.v, second.u, second.v}, rounded);
    float16s::store_rounded_pairs(rounded[0], rounded[1], out);
    float16s::store_rounded_pairs(rounded[2], rounded[3], out + words);
  }
};

// ---- rows ----

template <class Chunk, bool interleaved>
using Angles = typename Chunk::template Angles<interleaved>;

/// Whether pairs are turned as spread() has them.
template <class Chunk>
constexpr bool are_spread(bool interleaved) noexcept {
  return interleaved && !std::is_same_v<Chunk, Bfloat16>;
}

/// How many values stand for the cosine of a pair, and as many for its sine.
template <class Chunk>
constexpr std::int64_t values_per_pair(bool interleaved) noexcept {
  return are_spread<Chunk>(interleaved) ? 2 : 1;
}

template <class Chunk>
constexpr std::int64_t most_pairs = 2 * static_cast<std::int64_t>(hn::MaxLanes(Tag<typename Chunk::Lane>()));

// One row. What is left over after whole chunks goes through a buffer: nothing outside the row is touched. With masks where
// the instruction set has them: a vector waits long for numbers that were written one by one.

template <class T>
constexpr bool has_masks = HWY_TARGET <= HWY_AVX3 || (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4);

/// Into whole vectors, filled up with zeros.
template <class T>
HWY_INLINE void copy_to_buffer(const T* from, std::int64_t count, T* to) {
  if constexpr (has_masks<T>) {
    const Tag<T> d;
    for (std::int64_t i = 0; i < count; i += lanes<T>()) {
      hn::Store(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, from + i), d, to + i);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

template <class T>
HWY_INLINE void copy_from_buffer(const T* from, std::int64_t count, T* to) {
  if constexpr (has_masks<T>) {
    const Tag<T> d;
    for (std::int64_t i = 0; i < count; i += lanes<T>()) {
      hn::BlendedStore(hn::Load(d, from + i), hn::FirstN(d, static_cast<std::size_t>(count - i)), d, to + i);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// Whether half a chunk of what is left over can do without the buffer.
template <class Chunk>
constexpr bool has_shorter_vectors = HWY_TARGET != HWY_SCALAR&& std::is_same_v<Chunk, Wide<typename Chunk::Lane>>;

/// The chunk of a row that begins with pair j.
template <class Chunk, Rounding rounding, bool interleaved>
HWY_INLINE void chunk_of_row(std::int64_t num_pairs, std::int64_t j, const typename Chunk::Stored* x,
                             const Angles<Chunk, interleaved>& angles, typename Chunk::Written* out) {
  if constexpr (interleaved) Chunk::template interleaved<rounding>(x + 2 * j, angles, out + 2 * j);
  else Chunk::template half<rounding>(x + j, x + num_pairs + j, angles, out + j, out + num_pairs + j);
}

/// What is left over from pair j on.
template <class Chunk, Rounding rounding, bool interleaved>
HWY_INLINE void rest_of_row(std::int64_t num_pairs, std::int64_t j, const typename Chunk::Stored* x,
                            const Angles<Chunk, interleaved>& angles, typename Chunk::Written* out) {
  HWY_ALIGN typename Chunk::Stored rest[2 * most_pairs<Chunk>] = {};
  HWY_ALIGN typename Chunk::Written turned[2 * most_pairs<Chunk>];
  const std::int64_t left = num_pairs - j;
  if constexpr (interleaved) {
    copy_to_buffer(x + 2 * j, 2 * left, rest);
    Chunk::template interleaved<rounding>(rest, angles, turned);
    copy_from_buffer(turned, 2 * left, out + 2 * j);
  } else {
    auto* const rest_v = rest + most_pairs<Chunk>;
    auto* const turned_v = turned + most_pairs<Chunk>;
    copy_to_buffer(x + j, left, rest);
    copy_to_buffer(x + num_pairs + j, left, rest_v);
    Chunk::template half<rounding>(rest, rest_v, angles, turned, turned_v);
    copy_from_buffer(turned, left, out + j);
    copy_from_buffer(turned_v, left, out + num_pairs + j);
  }
}

template <class Chunk, Rounding rounding, bool interleaved>
HWY_INLINE void row_of(std::int64_t num_pairs, const typename Chunk::Stored* x, const typename Chunk::Lane* cos,
                       const typename Chunk::Lane* sin, typename Chunk::Written* out) {
  constexpr std::int64_t values = values_per_pair<Chunk>(interleaved);
  const std::int64_t chunk = Chunk::pairs();
  std::int64_t j = 0;
  for (; j + chunk <= num_pairs; j += chunk) {
    chunk_of_row<Chunk, rounding, interleaved>(num_pairs, j, x, {cos + j * values, sin + j * values}, out);
  }
  if constexpr (!interleaved && has_shorter_vectors<Chunk> && rounding == Rounding::fused) {
    if (j + chunk / 2 == num_pairs) {  // not before a rest: cos and sin are filled up to whole chunks alone
      return half_of_fewer(x + j, x + num_pairs + j, cos + j, sin + j, out + j, out + num_pairs + j);
    }
  }
  if (j < num_pairs) rest_of_row<Chunk, rounding, interleaved>(num_pairs, j, x, {cos + j * values, sin + j * values}, out);
}

/// cos and sin are arranged one after the other, each filled up with zeros to whole chunks.
template <class Chunk>
std::int64_t padded(const PairFormat& format) noexcept {
  const std::int64_t chunk = Chunk::pairs(), chunks = (format.num_pairs + chunk - 1) / chunk;
  return chunks * chunk * values_per_pair<Chunk>(format.interleaved);
}

/// `num_lines` of them, `step` apart. They may lie beyond the tensor, where no pointer may point.
HWY_INLINE void fetch_lines(std::uintptr_t first, std::int64_t num_lines, std::int64_t step) {
  for (std::int64_t i = 0; i < num_lines; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(first + static_cast<std::uintptr_t>(i * step)));
  }
}

/// Whether cos and sin of a whole row stay in registers, while rows share them.
template <class Chunk, bool interleaved, int chunks>
constexpr bool are_held = chunks > 0 && chunks * sizeof(Angles<Chunk, interleaved>) <=
                                            (HWY_TARGET <= HWY_AVX3 ? 16 : 8) * sizeof(Vec<typename Chunk::Lane>);

/// `chunks`: of a row, without rest; 0: any number of pairs.
template <class Chunk, Rounding rounding, bool interleaved, int chunks>
void rows_of(const RowsToRotate& rows) noexcept {
  using Lane = typename Chunk::Lane;
  // A constant number leaves no loops over a row.
  const std::int64_t chunk = Chunk::pairs(), num_pairs = chunks == 0 ? rows.format.num_pairs : chunks * chunk;
  const std::int64_t sin_begins = padded<Chunk>(rows.format);
  const std::int64_t row_bytes = 2 * num_pairs * static_cast<std::int64_t>(sizeof(typename Chunk::Stored));
  const std::int64_t lines = rows.ahead.first == 0 ? 0 : (row_bytes + line_bytes - 1) / line_bytes;
  const std::int64_t alike = rows.row_step.arranged == 0 ? rows.num_rows : 1;
  for (std::int64_t group = 0; group < rows.num_groups; ++group) {
    const auto* x = static_cast<const typename Chunk::Stored*>(rows.x) + group * rows.group_step.x;
    auto* out = static_cast<typename Chunk::Written*>(rows.out) + group * rows.group_step.out;
    const auto* cos = static_cast<const Lane*>(rows.arranged) + group * rows.group_step.arranged;
    auto ahead = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(rows.ahead.first);
    for (std::int64_t first = 0; first < rows.num_rows; first += alike, cos += rows.row_step.arranged) {
      Angles<Chunk, interleaved> held[std::max(chunks, 1)];
      if constexpr (are_held<Chunk, interleaved, chunks>) {
        const std::int64_t values = chunk * values_per_pair<Chunk>(interleaved);
        unroll<chunks>([&](auto i) ROTARY_LAMBDA { held[i] = {cos + i * values, cos + sin_begins + i * values}; });
      }
      for (std::int64_t i = 0; i < alike; ++i) {
        fetch_lines(ahead, lines, rows.ahead.line_step);
        if constexpr (are_held<Chunk, interleaved, chunks>) {
          unroll<chunks>([&](auto j) ROTARY_LAMBDA {
            chunk_of_row<Chunk, rounding, interleaved>(num_pairs, j * chunk, x, held[j], out);
          });
        } else {
          row_of<Chunk, rounding, interleaved>(num_pairs, x, cos, cos + sin_begins, out);
        }
        ahead += static_cast<std::uintptr_t>(rows.ahead.row_step);
        x += rows.row_step.x;
        out += rows.row_step.out;
      }
    }
  }
}

/// Short vectors make many chunks of a row, so that a loop over them costs little.
constexpr bool has_long_vectors = hn::MaxLanes(Tag<float>()) > 4;

template <class Chunk, Rounding rounding, bool interleaved>
void rows_of_length(const RowsToRotate& rows) noexcept {
  if constexpr (rounding == Rounding::fused && has_long_vectors) {
    if (rows.format.num_pairs == 2 * Chunk::pairs()) return rows_of<Chunk, rounding, interleaved, 2>(rows);
    if (rows.format.num_pairs == 4 * Chunk::pairs()) return rows_of<Chunk, rounding, interleaved, 4>(rows);
    if (rows.format.num_pairs == 8 * Chunk::pairs()) return rows_of<Chunk, rounding, interleaved, 8>(rows);
  }
  rows_of<Chunk, rounding, interleaved, 0>(rows);
}

template <class Chunk, Rounding rounding>
void rows_in_layout(const RowsToRotate& rows) noexcept {
  if (rows.format.interleaved) rows_of_length<Chunk, rounding, true>(rows);
  else rows_of_length<Chunk, rounding, false>(rows);
}

// Where fma is an instruction, `fused` is what `always_fused` asks for.
constexpr Rounding fused_everywhere = HWY_NATIVE_FMA ? Rounding::fused : Rounding::always_fused;

/// 16-bit numbers are rounded to their own dtype at every step, or not at all: `separate` is for wide ones.
template <class Chunk>
void rows_with_rounding(const RowsToRotate& rows) noexcept {
  constexpr bool is_float = std::is_same_v<typename Chunk::Stored, float>;
  switch (rows.rounding) {
    case Rounding::fused: return rows_in_layout<Chunk, Rounding::fused>(rows);
    case Rounding::always_fused: return rows_in_layout<Chunk, fused_everywhere>(rows);
    case Rounding::separate:
      if constexpr (sizeof(typename Chunk::Stored) >= 4) return rows_in_layout<Chunk, Rounding::separate>(rows);
      break;
    case Rounding::separate_bf16:
      if constexpr (is_float || std::is_same_v<Chunk, Bfloat16>)
        return rows_in_layout<Chunk, Rounding::separate_bf16>(rows);
      break;
    case Rounding::separate_f16:
      if constexpr (is_float || std::is_same_v<Chunk, Float16>) return rows_in_layout<Chunk, Rounding::separate_f16>(rows);
      break;
  }
  assert(false);
}

/// cos or sin of a chunk, where u and v lie apart.
template <class Chunk>
HWY_INLINE void arrange_chunk(bool interleaved, const typename Chunk::Lane* from, typename Chunk::Lane* to) {
  const Tag<typename Chunk::Lane> d;
  auto first = hn::LoadU(d, from);
  if constexpr (std::is_same_v<Chunk, Bfloat16>) {
    auto second = hn::LoadU(d, from + lanes<float>());
    if (!interleaved) hn::LoadInterleaved2(d, from, first, second);
    hn::StoreU(second, d, to + lanes<float>());
  }
  hn::StoreU(first, d, to);
}

/// cos or sin of a token.
template <class Chunk>
HWY_INLINE void arrange_row(const PairFormat& format, const typename Chunk::Lane* from, typename Chunk::Lane* to) {
  using Lane = typename Chunk::Lane;
  const std::int64_t chunk = Chunk::pairs();
  const bool is_arranged = from == to && !std::is_same_v<Chunk, Bfloat16>;
  if (is_arranged) return std::fill(to + format.num_pairs, to + padded<Chunk>(format), Lane{0});
  std::int64_t j = 0;
  for (; j + chunk <= format.num_pairs; j += chunk) arrange_chunk<Chunk>(format.interleaved, from + j, to + j);
  if (const std::int64_t left = format.num_pairs - j; left > 0) {
    HWY_ALIGN Lane rest[most_pairs<Chunk>] = {};
    copy_to_buffer(from + j, left, rest);
    arrange_chunk<Chunk>(format.interleaved, rest, to + j);
  }
}

template <class Lane>
HWY_INLINE void arrange_spread_chunk(const Lane* cos, const Lane* sin, Lane* cs, Lane* sc) {
  const Tag<Lane> d;
  const auto c = hn::LoadU(d, cos), s = hn::LoadU(d, sin);
  hn::StoreInterleaved2(c, s, d, cs);
  hn::StoreInterleaved2(hn::Neg(s), c, d, sc);
}

/// cos and sin of a token, for turn_spread(). From the end on, as they may lie where they go.
template <class Chunk>
HWY_INLINE void arrange_spread(const PairFormat& format, const typename Chunk::Lane* cos, const typename Chunk::Lane* sin,
                               typename Chunk::Lane* cs, typename Chunk::Lane* sc) {
  const std::int64_t chunk = Chunk::pairs(), rest = format.num_pairs % chunk;
  std::int64_t j = format.num_pairs - rest;
  if (rest > 0) {
    HWY_ALIGN typename Chunk::Lane rest_cos[most_pairs<Chunk>] = {}, rest_sin[most_pairs<Chunk>] = {};
    copy_to_buffer(cos + j, rest, rest_cos);
    copy_to_buffer(sin + j, rest, rest_sin);
    arrange_spread_chunk(rest_cos, rest_sin, cs + 2 * j, sc + 2 * j);
  }
  for (j -= chunk; j >= 0; j -= chunk) arrange_spread_chunk(cos + j, sin + j, cs + 2 * j, sc + 2 * j);
}

template <class Chunk>
void arrange_with(const PairFormat& format, const AnglesToArrange& angles, void* arranged) noexcept {
  using Lane = typename Chunk::Lane;
  const auto *cos = static_cast<const Lane*>(angles.cos), *sin = static_cast<const Lane*>(angles.sin);
  const std::int64_t half = padded<Chunk>(format);
  auto* to = static_cast<Lane*>(arranged);
  for (std::int64_t i = 0; i < angles.count; ++i, cos += angles.step, sin += angles.step, to += 2 * half) {
    if constexpr (are_spread<Chunk>(true)) {
      if (format.interleaved) {
        arrange_spread<Chunk>(format, cos, sin, to, to + half);
        continue;
      }
    }
    arrange_row<Chunk>(format, cos, to);
    arrange_row<Chunk>(format, sin, to + half);
  }
}

template <class Chunk>
void reverse_with(const PairFormat& format, std::int64_t count, void* arranged) noexcept {
  const std::int64_t half = padded<Chunk>(format);
  auto* at = static_cast<typename Chunk::Lane*>(arranged);
  for (std::int64_t i = 0; i < count; ++i, at += 2 * half) {
    auto* const second = at + half;
    if (are_spread<Chunk>(format.interleaved)) {
      for (std::int64_t j = 0; j < half; j += 2) {
        at[j + 1] = -at[j + 1];
        second[j] = -second[j];
      }
    } else {
      for (std::int64_t j = 0; j < half; ++j) second[j] = -second[j];
    }
  }
}

}  // namespace

std::int64_t arranged_size_kernel(const PairFormat& format) noexcept {
  switch (format.dtype) {
    case DType::f64: return 2 * padded<Wide<double>>(format);
    case DType::f16: return 2 * padded<Float16>(format);
    case DType::bf16: return 2 * padded<Bfloat16>(format);
    default: return 2 * padded<Wide<float>>(format);
  }
}

void arrange_kernel(const PairFormat& format, const AnglesToArrange& angles, void* arranged) noexcept {
  switch (format.dtype) {
    case DType::f64: return arrange_with<Wide<double>>(format, angles, arranged);
    case DType::f16: return arrange_with<Float16>(format, angles, arranged);
    case DType::bf16: return arrange_with<Bfloat16>(format, angles, arranged);
    default: return arrange_with<Wide<float>>(format, angles, arranged);
  }
}

void reverse_kernel(const PairFormat& format, std::int64_t count, void* arranged) noexcept {
  assert(format.dtype != DType::bf16);
  if (format.dtype == DType::f64) reverse_with<Wide<double>>(format, count, arranged);
  else reverse_with<Wide<float>>(format, count, arranged);
}

void rotate_rows_kernel(const RowsToRotate& rows) noexcept {
  switch (rows.format.dtype) {
    case DType::f64: return rows_with_rounding<Wide<double>>(rows);
    case DType::f16: return rows_with_rounding<Float16>(rows);
    case DType::bf16: return rows_with_rounding<Bfloat16>(rows);
    default: break;
  }
  switch (rows.widened_from) {
    case DType::f16: return rows_in_layout<Widened<StoredFloat16>, Rounding::fused>(rows);
    case DType::bf16: return rows_in_layout<Widened<StoredBfloat16>, Rounding::fused>(rows);
    default: return rows_with_rounding<Wide<float>>(rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

std::int64_t arranged_size(const PairFormat& format) noexcept { return ROTARY_KERNEL(arranged_size_kernel)(format); }

void arrange(const PairFormat& format, const AnglesToArrange& angles, void* arranged) noexcept {
  ROTARY_KERNEL(arrange_kernel)(format, angles, arranged);
}

void reverse(const PairFormat& format, std::int64_t count, void* arranged) noexcept {
  ROTARY_KERNEL(reverse_kernel)(format, count, arranged);
}

void rotate_rows(const RowsToRotate& rows) noexcept { ROTARY_KERNEL(rotate_rows_kernel)(rows); }

}  // namespace rotary
#endif
