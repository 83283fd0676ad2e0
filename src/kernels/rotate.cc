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
#include <cstring>
#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/float16-inl.h"
#include "kernels/pairs-inl.h"

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

// ---- chunks: the pairs that are turned at once, per dtype and layout ----
//
// `pairs` of them; `arrange` orders cos or sin of one chunk; `half` and `interleaved` turn one chunk.

template <class Lane>
std::int64_t lanes() noexcept {
  return static_cast<std::int64_t>(hn::Lanes(Tag<Lane>()));
}

/// float32 and float64.
template <class T>
struct Wide {
  using Lane = T;
  using Stored = T;
  using Written = T;
  static std::int64_t pairs(bool) noexcept { return lanes<T>(); }
  static HWY_INLINE void arrange(bool interleaved, const T* from, T* to) {
    if (interleaved) arrange_for_zip(from, to);
    else hn::StoreU(hn::LoadU(Tag<T>(), from), Tag<T>(), to);
  }
  template <Rounding rounding>
  static HWY_INLINE void half(const T* u, const T* v, const T* cos, const T* sin, T* out_u, T* out_v) {
    const Tag<T> d;
    const auto turned = turn<rounding, T>({hn::LoadU(d, u), hn::LoadU(d, v)}, hn::LoadU(d, cos), hn::LoadU(d, sin));
    hn::StoreU(turned.u, d, out_u);
    hn::StoreU(turned.v, d, out_v);
  }
  /// Half as many pairs, fused.
  static HWY_INLINE void half_of_fewer(const T* u, const T* v, const T* cos, const T* sin, T* out_u, T* out_v) {
    const hn::Half<Tag<T>> d;
    const auto x = hn::LoadU(d, u), y = hn::LoadU(d, v), c = hn::LoadU(d, cos), s = hn::LoadU(d, sin);
    hn::StoreU(hn::MulSub(x, c, hn::Mul(y, s)), d, out_u);
    hn::StoreU(hn::MulAdd(x, s, hn::Mul(y, c)), d, out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const T* x, const T* cos, const T* sin, T* out) {
    const Tag<T> d;
    const auto members = zip<T>({hn::LoadU(d, x), hn::LoadU(d, x + lanes<T>())});
    const auto turned = zip<T>(turn<rounding, T>(members, hn::LoadU(d, cos), hn::LoadU(d, sin)));
    hn::StoreU(turned.u, d, out);
    hn::StoreU(turned.v, d, out + lanes<T>());
  }
};

struct Float16 {
  using Lane = float;
  using Stored = std::uint16_t;
  using Written = std::uint16_t;
  static std::int64_t pairs(bool) noexcept { return lanes<float>(); }
  static HWY_INLINE void arrange(bool interleaved, const float* from, float* to) {
    Wide<float>::arrange(interleaved, from, to);
  }
  template <Rounding rounding>
  static HWY_INLINE void half(const Stored* u, const Stored* v, const float* cos, const float* sin, Stored* out_u,
                              Stored* out_v) {
    const Tag<float> d;
    const auto turned =
        turn<rounding, float>({float16s::load_f16(u), float16s::load_f16(v)}, hn::LoadU(d, cos), hn::LoadU(d, sin));
    float16s::store_f16(turned.u, out_u);
    float16s::store_f16(turned.v, out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const Stored* x, const float* cos, const float* sin, Stored* out) {
    const Tag<float> d;
    const auto members = zip<float>({float16s::load_f16(x), float16s::load_f16(x + lanes<float>())});
    const auto turned = zip<float>(turn<rounding, float>(members, hn::LoadU(d, cos), hn::LoadU(d, sin)));
    float16s::store_f16(turned.u, out);
    float16s::store_f16(turned.v, out + lanes<float>());
  }
};

/// A word holds two elements: an interleaved pair, or two neighbours of a half.
struct Bfloat16 {
  using Lane = float;
  using Stored = std::uint16_t;
  using Written = std::uint16_t;
  static std::int64_t pairs(bool interleaved) noexcept { return (interleaved ? 1 : 2) * lanes<float>(); }
  static HWY_INLINE void arrange(bool interleaved, const float* from, float* to) {
    const Tag<float> d;
    if (interleaved) {
      hn::StoreU(hn::LoadU(d, from), d, to);
    } else {
      Vec<float> even, odd;
      hn::LoadInterleaved2(d, from, even, odd);
      hn::StoreU(even, d, to);
      hn::StoreU(odd, d, to + lanes<float>());
    }
  }
  template <Rounding rounding>
  static HWY_INLINE void half(const Stored* u, const Stored* v, const float* cos, const float* sin, Stored* out_u,
                              Stored* out_v) {
    const Tag<float> d;
    Members<float> even, odd;
    float16s::load_bf16_pairs(u, even.u, odd.u);
    float16s::load_bf16_pairs(v, even.v, odd.v);
    even = turn<rounding, float>(even, hn::LoadU(d, cos), hn::LoadU(d, sin));
    odd = turn<rounding, float>(odd, hn::LoadU(d, cos + lanes<float>()), hn::LoadU(d, sin + lanes<float>()));
    float16s::W rounded[4];
    float16s::round_up_to_bf16({even.u, odd.u, even.v, odd.v}, rounded);
    float16s::store_rounded_pairs(rounded[0], rounded[1], out_u);
    float16s::store_rounded_pairs(rounded[2], rounded[3], out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const Stored* x, const float* cos, const float* sin, Stored* out) {
    const Tag<float> d;
    Members<float> members;
    float16s::load_bf16_pairs(x, members.u, members.v);
    members = turn<rounding, float>(members, hn::LoadU(d, cos), hn::LoadU(d, sin));
    float16s::W rounded[2];
    float16s::round_up_to_bf16({members.u, members.v}, rounded);
    float16s::store_rounded_pairs(rounded[0], rounded[1], out);
  }
};

/// From 16 bits to float32: `load` widens.
template <float16s::F (*load)(const std::uint16_t*)>
struct Widened {
  using Lane = float;
  using Stored = std::uint16_t;
  using Written = float;
  static std::int64_t pairs(bool interleaved) noexcept { return Wide<float>::pairs(interleaved); }
  template <Rounding rounding>
  static HWY_INLINE void half(const Stored* u, const Stored* v, const float* cos, const float* sin, float* out_u,
                              float* out_v) {
    const Tag<float> d;
    const auto turned = turn<rounding, float>({load(u), load(v)}, hn::LoadU(d, cos), hn::LoadU(d, sin));
    hn::StoreU(turned.u, d, out_u);
    hn::StoreU(turned.v, d, out_v);
  }
  template <Rounding rounding>
  static HWY_INLINE void interleaved(const Stored* x, const float* cos, const float* sin, float* out) {
    const Tag<float> d;
    const auto members = zip<float>({load(x), load(x + lanes<float>())});
    const auto turned = zip<float>(turn<rounding, float>(members, hn::LoadU(d, cos), hn::LoadU(d, sin)));
    hn::StoreU(turned.u, d, out);
    hn::StoreU(turned.v, d, out + lanes<float>());
  }
};

// ---- rows ----

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

template <class Chunk, Rounding rounding>
HWY_INLINE void row_of_neighbours(std::int64_t num_pairs, const typename Chunk::Stored* x, const typename Chunk::Lane* cos,
                                  const typename Chunk::Lane* sin, typename Chunk::Written* out) {
  const std::int64_t chunk = Chunk::pairs(true);
  std::int64_t j = 0;
  for (; j + chunk <= num_pairs; j += chunk)
    Chunk::template interleaved<rounding>(x + 2 * j, cos + j, sin + j, out + 2 * j);
  if (const std::int64_t left = num_pairs - j; left > 0) {
    HWY_ALIGN typename Chunk::Stored rest[2 * most_pairs<Chunk>] = {};
    HWY_ALIGN typename Chunk::Written turned[2 * most_pairs<Chunk>];
    copy_to_buffer(x + 2 * j, 2 * left, rest);
    Chunk::template interleaved<rounding>(rest, cos + j, sin + j, turned);
    copy_from_buffer(turned, 2 * left, out + 2 * j);
  }
}

template <class Chunk, Rounding rounding>
HWY_INLINE void row_of_halves(std::int64_t num_pairs, const typename Chunk::Stored* x, const typename Chunk::Lane* cos,
                              const typename Chunk::Lane* sin, typename Chunk::Written* out) {
  const std::int64_t chunk = Chunk::pairs(false);
  const auto* v = x + num_pairs;
  auto* out_v = out + num_pairs;
  std::int64_t j = 0;
  for (; j + chunk <= num_pairs; j += chunk) {
    Chunk::template half<rounding>(x + j, v + j, cos + j, sin + j, out + j, out_v + j);
  }
  if constexpr (has_shorter_vectors<Chunk> && rounding == Rounding::fused) {
    if (j + chunk / 2 == num_pairs) {  // not before a rest: cos and sin are filled up to whole chunks alone
      return Chunk::half_of_fewer(x + j, v + j, cos + j, sin + j, out + j, out_v + j);
    }
  }
  if (const std::int64_t left = num_pairs - j; left > 0) {
    HWY_ALIGN typename Chunk::Stored rest[2 * most_pairs<Chunk>] = {};
    HWY_ALIGN typename Chunk::Written turned[2 * most_pairs<Chunk>];
    auto* const rest_v = rest + most_pairs<Chunk>;
    auto* const turned_v = turned + most_pairs<Chunk>;
    copy_to_buffer(x + j, left, rest);
    copy_to_buffer(v + j, left, rest_v);
    Chunk::template half<rounding>(rest, rest_v, cos + j, sin + j, turned, turned_v);
    copy_from_buffer(turned, left, out + j);
    copy_from_buffer(turned_v, left, out_v + j);
  }
}

/// cos and sin are arranged one after the other, each filled up with zeros to whole chunks.
template <class Chunk>
std::int64_t padded(const PairFormat& format) noexcept {
  const std::int64_t chunk = Chunk::pairs(format.interleaved);
  return (format.num_pairs + chunk - 1) / chunk * chunk;
}

/// `chunks`: of a row, without rest; 0: any number of pairs.
template <class Chunk, Rounding rounding, bool interleaved, int chunks>
void rows_of(const RowsToRotate& rows) noexcept {
  using Stored = typename Chunk::Stored;
  // A constant number leaves no loops over a row.
  const std::int64_t num_pairs = chunks == 0 ? rows.format.num_pairs : chunks * Chunk::pairs(interleaved);
  const std::int64_t sin_begins = padded<Chunk>(rows.format);
  const auto* x = static_cast<const Stored*>(rows.x);
  auto* out = static_cast<typename Chunk::Written*>(rows.out);
  const auto* cos = static_cast<const typename Chunk::Lane*>(rows.arranged);
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(Stored));
  auto ahead = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(rows.ahead.first);
  for (std::int64_t i = 0; i < rows.num_rows; ++i) {
    if (rows.ahead.first != 0) {
      auto at = ahead;
      for (std::int64_t channel = 0; channel < 2 * num_pairs; channel += line) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie beyond the tensor, where no pointer may point
        hwy::Prefetch(reinterpret_cast<const Stored*>(at));
        at += static_cast<std::uintptr_t>(rows.ahead.line_step);
      }
      ahead += static_cast<std::uintptr_t>(rows.ahead.row_step);
    }
    if constexpr (interleaved) row_of_neighbours<Chunk, rounding>(num_pairs, x, cos, cos + sin_begins, out);
    else row_of_halves<Chunk, rounding>(num_pairs, x, cos, cos + sin_begins, out);
    x += rows.x_step;
    out += rows.out_step;
    cos += rows.arranged_step;
  }
}

template <class Chunk, Rounding rounding, bool interleaved>
void rows_of_length(const RowsToRotate& rows) noexcept {
  if constexpr (rounding == Rounding::fused) {
    if (rows.format.num_pairs == 2 * Chunk::pairs(interleaved)) return rows_of<Chunk, rounding, interleaved, 2>(rows);
    if (rows.format.num_pairs == 4 * Chunk::pairs(interleaved)) return rows_of<Chunk, rounding, interleaved, 4>(rows);
    if (rows.format.num_pairs == 8 * Chunk::pairs(interleaved)) return rows_of<Chunk, rounding, interleaved, 8>(rows);
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

template <class Chunk>
void arrange_with(const PairFormat& format, const void* cos, const void* sin, void* arranged) noexcept {
  using Lane = typename Chunk::Lane;
  const std::int64_t chunk = Chunk::pairs(format.interleaved);
  auto* to = static_cast<Lane*>(arranged);
  for (const void* const source : {cos, sin}) {
    const auto* from = static_cast<const Lane*>(source);
    Lane* const end = to + padded<Chunk>(format);
    const bool is_arranged = from == to && !format.interleaved && std::is_same_v<typename Chunk::Stored, Lane>;
    if (is_arranged) {
      std::fill(to + format.num_pairs, end, Lane{0});
      to = end;
      continue;
    }
    std::int64_t j = 0;
    for (; j + chunk <= format.num_pairs; j += chunk) Chunk::arrange(format.interleaved, from + j, to + j);
    if (const std::int64_t left = format.num_pairs - j; left > 0) {
      HWY_ALIGN Lane rest[most_pairs<Chunk>] = {};
      copy_to_buffer(from + j, left, rest);
      Chunk::arrange(format.interleaved, rest, to + j);
    }
    to = end;
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

void arrange_kernel(const PairFormat& format, const void* cos, const void* sin, void* arranged) noexcept {
  switch (format.dtype) {
    case DType::f64: return arrange_with<Wide<double>>(format, cos, sin, arranged);
    case DType::f16: return arrange_with<Float16>(format, cos, sin, arranged);
    case DType::bf16: return arrange_with<Bfloat16>(format, cos, sin, arranged);
    default: return arrange_with<Wide<float>>(format, cos, sin, arranged);
  }
}

void rotate_rows_kernel(const RowsToRotate& rows) noexcept {
  switch (rows.format.dtype) {
    case DType::f64: return rows_with_rounding<Wide<double>>(rows);
    case DType::f16: return rows_with_rounding<Float16>(rows);
    case DType::bf16: return rows_with_rounding<Bfloat16>(rows);
    default: break;
  }
  switch (rows.widened_from) {
    case DType::f16: return rows_in_layout<Widened<float16s::load_f16>, Rounding::fused>(rows);
    case DType::bf16: return rows_in_layout<Widened<float16s::load_bf16>, Rounding::fused>(rows);
    default: return rows_with_rounding<Wide<float>>(rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

std::int64_t arranged_size(const PairFormat& format) noexcept { return ROTARY_KERNEL(arranged_size_kernel)(format); }

void arrange(const PairFormat& format, const void* cos, const void* sin, void* arranged) noexcept {
  ROTARY_KERNEL(arrange_kernel)(format, cos, sin, arranged);
}

void rotate_rows(const RowsToRotate& rows) noexcept { ROTARY_KERNEL(rotate_rows_kernel)(rows); }

}  // namespace rotary
#endif
