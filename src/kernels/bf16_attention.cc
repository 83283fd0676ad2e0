#include "kernels/bf16_attention.h"

#if !defined(__x86_64__)

namespace rotary {
const AttentionKernels<float>* bf16_attention_kernels() noexcept { return nullptr; }
}  // namespace rotary

#else

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/round_up.h"
#include "kernels/products.h"
#include "rotary/isa.hpp"

// By function, as no file may be compiled for more than every machine has (docs/design/0004-dispatch.md). Highway 1.0.3 has
// neither of the two.
#define ROTARY_PAIRS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define ROTARY_TILES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace rotary {
namespace {

constexpr std::int64_t lanes = 16;                            // words, and rows of a tile
constexpr std::int64_t tile_numbers = 2 * lanes;              // of one of its rows
constexpr std::int64_t tile_words = lanes * lanes;            // of all
constexpr std::int64_t vectors = 3, rows = vectors * lanes;   // of a row tile
constexpr std::int64_t key_tiles = tile_keys / tile_numbers;  // of one panel of channels

// ---- packing ----

/// As many numbers as there are, and zeros.
ROTARY_PAIRS __m512 load(const float* x, std::int64_t count) noexcept {
  if (count >= lanes) return _mm512_loadu_ps(x);
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << std::max<std::int64_t>(count, 0)) - 1), x);
}

/// Words of one number of `low` and one of `high`.
ROTARY_PAIRS __m512i pairs_of(__m512 low, __m512 high) noexcept {
  const __m512i in_order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                            5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto numbers = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  return _mm512_permutexvar_epi16(in_order, numbers);
}

/// tile_numbers of a row from x on, of which `count` are there, times a factor.
ROTARY_PAIRS __m512i row_of_tile(const float* x, std::int64_t count, float factor = 1) noexcept {
  const __m512 times = _mm512_set1_ps(factor);
  const __m512 low = _mm512_mul_ps(load(x, count), times), high = _mm512_mul_ps(load(x + lanes, count - lanes), times);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

std::int64_t packed_width(std::int64_t head_dim) noexcept { return round_up(head_dim, tile_numbers) / 2; }
std::int64_t packed_values(std::int64_t value_dim) noexcept { return round_up(value_dim, lanes) * tile_keys / 2; }

ROTARY_PAIRS void pack_queries(const float* x, const float* scales, std::int64_t head_dim, float* queries) noexcept {
  alignas(64) float tile[tile_words];
  for (std::int64_t channel = 0; channel < head_dim; channel += tile_numbers) {
    for (std::int64_t first = 0; first < rows; first += lanes) {
      for (std::int64_t r = 0; r < lanes; ++r) {
        const __m512i row = row_of_tile(x + (first + r) * head_dim + channel, head_dim - channel, scales[first + r]);
        _mm512_store_si512(tile + r * lanes, row);
      }
      product_kernels<float>().transpose(tile, lanes, lanes, queries + channel / 2 * rows + first, rows);
    }
  }
}

ROTARY_PAIRS void pack_keys(const float* x, std::int64_t head_dim, std::int64_t first, float* keys) noexcept {
  const std::int64_t width = packed_width(head_dim);
  for (std::int64_t key = 0; key < tile_numbers; ++key) {
    float* row = keys + (first + key) / lanes * lanes * width + key % lanes * lanes;
    for (std::int64_t channel = 0; channel < head_dim; channel += tile_numbers, row += tile_words) {
      _mm512_store_si512(row, row_of_tile(x + key * head_dim + channel, head_dim - channel));
    }
  }
}

ROTARY_PAIRS bool pack_values(const float* x, std::int64_t step, std::int64_t count, std::int64_t value_dim,
                              std::int64_t first, float* values) noexcept {
  constexpr int infinite_or_nan = 0x99;
  alignas(64) float tile[tile_words];
  __mmask16 not_finite = 0;
  for (std::int64_t channel = 0; channel < value_dim; channel += lanes) {
    const std::int64_t width = value_dim - channel;
    for (std::int64_t key = 0; key < tile_numbers; key += 2) {
      const float* const row = x + key * step + channel;
      const __m512 low = load(row, key < count ? width : 0);
      const __m512 high = load(row + step, key + 1 < count ? width : 0);
      not_finite |= _mm512_fpclass_ps_mask(low, infinite_or_nan) | _mm512_fpclass_ps_mask(high, infinite_or_nan);
      _mm512_store_si512(tile + key / 2 * lanes, pairs_of(low, high));
    }
    float* const to = values + (channel / lanes * key_tiles + first / tile_numbers) * tile_words;
    product_kernels<float>().transpose(tile, lanes, lanes, to, lanes);
  }
  return not_finite == 0;
}

/// To words of two keys, in place, and zeros for keys that fill up a tile.
ROTARY_PAIRS void pack_weights(float* weights, std::int64_t num_keys) noexcept {
  float* to = weights;
  for (std::int64_t key = 0; key < num_keys; key += 2, to += rows) {
    const float* const low = weights + key * rows;
    for (std::int64_t r = 0; r < rows; r += lanes) {
      const __m512 high = key + 1 < num_keys ? _mm512_load_ps(low + rows + r) : _mm512_setzero_ps();
      _mm512_store_si512(to + r, pairs_of(_mm512_load_ps(low + r), high));
    }
  }
  std::fill(to, weights + round_up(num_keys, tile_numbers) / 2 * rows, 0.0f);
}

// ---- products ----

/// Of one row of tiles: out [lanes][rows] = sum over tiles of a [lanes][tile_numbers] and b [tile_numbers][rows].
struct TileProduct {
  const float *a, *b;
  std::int64_t num_tiles;
  float* out;
  bool adds;  ///< to what out holds
};

struct Pairs {
  static void begin() noexcept {}
  static void end() noexcept {}

  /// Half of the rows of a at a time, so that sums stay in registers.
  ROTARY_PAIRS static void multiply(const TileProduct& p) noexcept {
    constexpr int half = lanes / 2;
    for (int first = 0; first < lanes; first += half) {
      __m512 sums[half][vectors];
      for (int i = 0; i < half; ++i) {
        for (int v = 0; v < vectors; ++v) {
          sums[i][v] = p.adds ? _mm512_load_ps(p.out + (first + i) * rows + v * lanes) : _mm512_setzero_ps();
        }
      }
      for (std::int64_t tile = 0; tile < p.num_tiles; ++tile) {
        for (std::int64_t pair = 0; pair < lanes; ++pair) {
          const float* const a = p.a + tile * tile_words + first * lanes + pair;
          const float* const b = p.b + (tile * lanes + pair) * rows;
          __m512bh row[vectors];
          for (int v = 0; v < vectors; ++v) row[v] = reinterpret_cast<__m512bh>(_mm512_load_ps(b + v * lanes));
          for (int i = 0; i < half; ++i) {
            const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_ps(a[i * lanes]));
            for (int v = 0; v < vectors; ++v) sums[i][v] = _mm512_dpbf16_ps(sums[i][v], row[v], factor);
          }
        }
      }
      for (int i = 0; i < half; ++i) {
        for (int v = 0; v < vectors; ++v) _mm512_store_ps(p.out + (first + i) * rows + v * lanes, sums[i][v]);
      }
    }
  }
};

/// What the instruction that shapes tiles reads (Intel's Software Developer's Manual, volume 1, chapter 18).
struct alignas(64) TileShapes {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t num_rows[16];
};
constexpr TileShapes whole_tiles = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

/// The compiler is not told what a tile is loaded from or stored to.
void see_memory() noexcept { __asm__ volatile("" ::: "memory"); }

struct Tiles {
  /// Tiles are the thread's until end(); no code of the caller runs in between.
  ROTARY_TILES static void begin() noexcept {
    _tile_loadconfig(&whole_tiles);
    see_memory();
  }
  ROTARY_TILES static void end() noexcept {
    see_memory();
    _tile_release();
  }

  ROTARY_TILES static void multiply(const TileProduct& p) noexcept {
    constexpr std::size_t row_bytes = rows * sizeof(float), word_row_bytes = lanes * sizeof(float);
    if (p.adds) {
      _tile_loadd(0, p.out, row_bytes);
      _tile_loadd(1, p.out + lanes, row_bytes);
      _tile_loadd(2, p.out + 2 * lanes, row_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
    }
    const float *a = p.a, *b = p.b;
    for (std::int64_t tile = 0; tile < p.num_tiles; ++tile, a += tile_words, b += lanes * rows) {
      _tile_loadd(3, a, word_row_bytes);
      _tile_loadd(4, b, row_bytes);
      _tile_dpbf16ps(0, 3, 4);
      _tile_loadd(5, b + lanes, row_bytes);
      _tile_dpbf16ps(1, 3, 5);
      _tile_loadd(6, b + 2 * lanes, row_bytes);
      _tile_dpbf16ps(2, 3, 6);
    }
    _tile_stored(0, p.out, row_bytes);
    _tile_stored(1, p.out + lanes, row_bytes);
    _tile_stored(2, p.out + 2 * lanes, row_bytes);
  }
};

// What a product points at is written to, which the linter does not see.
// NOLINTBEGIN(readability-non-const-parameter)
template <class Unit>
void score(const KeysAndQueries<float>& p, float* scores, LinesAhead& ahead) noexcept {
  const std::int64_t width = packed_width(p.head_dim);
  TileProduct product{p.keys + p.first * width, p.queries, width / lanes, scores, false};
  Unit::begin();
  for (std::int64_t key = 0; key < p.num_keys; key += lanes) {
    ahead.fetch();
    Unit::multiply(product);
    product.a += lanes * width;
    product.out += lanes * rows;
  }
  Unit::end();
}

template <class Unit>
void accumulate(const ValuesAndWeights<float>& p, LinesAhead& ahead) noexcept {
  pack_weights(p.weights, p.num_keys);
  const std::int64_t num_tiles = round_up(p.num_keys, tile_numbers) / tile_numbers;
  TileProduct product{p.values + p.first / tile_numbers * tile_words, p.weights, num_tiles, p.out, p.adds};
  Unit::begin();
  for (std::int64_t channel = 0; channel < p.value_dim; channel += lanes) {
    ahead.fetch();
    Unit::multiply(product);
    product.a += key_tiles * tile_words;
    product.out += lanes * rows;
  }
  Unit::end();
}

// NOLINTEND(readability-non-const-parameter)

template <class Unit>
AttentionKernels<float> kernels() noexcept {
  AttentionKernels<float> table = attention_kernels<float>();  // what is done to scores is the same
  static_assert(rows == 48);
  table.key_panel = tile_numbers;
  table.value_panel = table.step = lanes;
  table.packed_width = packed_width;
  table.packed_values = packed_values;
  table.pack_queries = pack_queries;
  table.pack_keys = pack_keys;
  table.pack_values = pack_values;
  table.score = score<Unit>;
  table.score_and_weigh = nullptr;
  table.accumulate = accumulate<Unit>;
  return table;
}

}  // namespace

const AttentionKernels<float>* bf16_attention_kernels() noexcept {
  switch (active_isa()) {
    case Isa::avx512_bf16: {
      static const AttentionKernels<float> of_pairs = kernels<Pairs>();
      return &of_pairs;
    }
    case Isa::amx: {
      static const AttentionKernels<float> of_tiles = kernels<Tiles>();
      return &of_tiles;
    }
    default: return nullptr;
  }
}

}  // namespace rotary

#endif
