// Any sequence of operations leaves a cache as recomputation from scratch would have it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/kv_cache.hpp"
#include "support/kv_model.h"

namespace rotary {
namespace {

Rotation rotation_of_a_slice() {
  return Rotation({.head_dim = 9,
                   .rotary_offset = 1,
                   .pairing_in = Pairing::half,
                   .inv_freq = default_frequencies(1e4, 6).inv_freq,
                   .amplitude = 1.138629436111989});
}

enum class Kind : std::uint8_t { append, append_far, drop, drop_and_close, shift, copy, truncate, clear };

/// Numbers of any size, which apply() brings into range.
struct Operation {
  Kind kind;
  std::uint32_t sequence, other, begin, length;
  std::int32_t distance;
};

std::ostream& operator<<(std::ostream& out, const Operation& o) {
  return out << "{" << static_cast<int>(o.kind) << ", " << o.sequence << ", " << o.other << ", " << o.begin << ", "
             << o.length << ", " << o.distance << "}";
}

constexpr std::size_t num_sequences = 3;
constexpr std::int64_t most_tokens = 40;  // of one sequence

class Twins {
 public:
  explicit Twins(const KvCacheOptions& options) : cache(options) { model.sequences.resize(num_sequences); }

  /// Does the same to both. Where the pool is exhausted, nothing may happen.
  void apply(const Operation& o) {
    const std::size_t n = o.sequence % num_sequences;
    const auto id = static_cast<std::int64_t>(n);
    KvModel::Sequence& s = model.sequences[n];
    const std::size_t begin = o.begin % (s.size() + 1), end = begin + o.length % (s.size() - begin + 1);
    const auto first = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end);
    try {
      switch (o.kind) {
        case Kind::append:
        case Kind::append_far: return append(n, o);
        case Kind::drop: cache.drop(id, first, last); return model.drop(n, begin, end, false);
        case Kind::drop_and_close:
          if (begin < end && end < s.size() && !may_move(s, end, s.size(), s[begin].position[0] - s[end].position[0]))
            return;
          cache.drop(id, first, last, Gap::close);
          return model.drop(n, begin, end, true);
        case Kind::shift:
          if (!may_move(s, begin, end, o.distance)) return;
          cache.shift(id, first, last, o.distance);
          return model.shift(n, begin, end, o.distance);
        case Kind::copy: {
          const std::size_t to = (n + 1 + o.other % (num_sequences - 1)) % num_sequences;
          if (model.sequences[to].size() + end - begin > most_tokens) return;
          cache.copy(id, static_cast<std::int64_t>(to), first, last);
          return model.copy(n, to, begin, end);
        }
        case Kind::truncate: cache.truncate(id, first); return s.resize(begin);
        case Kind::clear: cache.clear(id); return s.clear();
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::exhausted) throw;
      ++num_exhausted;
    }
  }

  /// Every block is free or held.
  void expect_no_block_lost() const {
    std::set<std::int32_t> held;
    for (std::int64_t n = 0; n < cache.options().num_sequences; ++n) {
      for (const std::int32_t block : cache.block_table(n)) held.insert(block);
    }
    ASSERT_EQ(cache.num_free_blocks() + static_cast<std::int64_t>(held.size()), cache.options().num_blocks);
  }

  KvCache cache;
  KvModel model;
  int num_exhausted = 0;

 private:
  static bool may_move(const KvModel::Sequence& s, std::size_t begin, std::size_t end, double distance) {
    return std::all_of(s.begin() + static_cast<std::ptrdiff_t>(begin), s.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](const ModelToken& token) {
                         const double moved = token.position[0] + distance;
                         return moved >= 0 && moved < 1e6;
                       });
  }

  void append(std::size_t n, const Operation& o) {
    KvModel::Sequence& s = model.sequences[n];
    const std::int64_t count = std::min<std::int64_t>(o.length % 7, most_tokens - static_cast<std::int64_t>(s.size()));
    const KvTokens tokens(cache.options(), count, ++seed_);
    double position = cache.next_position(static_cast<std::int64_t>(n));
    std::vector<double> ids;
    if (o.kind == Kind::append_far) position = o.begin % 200000;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(position + static_cast<double>(i));
    const ConstTensorView given =
        o.kind == Kind::append_far ? ConstTensorView(ids.data(), "S", {count}) : ConstTensorView();
    cache.append(static_cast<std::int64_t>(n), tokens.k.view(), tokens.v.view(), given);
    for (std::int64_t i = 0; i < count; ++i) s.push_back(tokens.token(i, ids[static_cast<std::size_t>(i)]));
  }

  std::uint64_t seed_ = 0;
};

rc::Gen<Operation> operations() {
  return rc::gen::construct<Operation>(rc::gen::weightedElement<Kind>({{6, Kind::append},
                                                                       {1, Kind::append_far},
                                                                       {3, Kind::drop},
                                                                       {2, Kind::drop_and_close},
                                                                       {3, Kind::shift},
                                                                       {4, Kind::copy},
                                                                       {2, Kind::truncate},
                                                                       {1, Kind::clear}}),
                                       rc::gen::arbitrary<std::uint32_t>(), rc::gen::arbitrary<std::uint32_t>(),
                                       rc::gen::arbitrary<std::uint32_t>(), rc::gen::arbitrary<std::uint32_t>(),
                                       rc::gen::inRange<std::int32_t>(-300, 300));
}

TEST(KvCacheRandom, HoldsWhatRecomputationFromScratchWouldHold) {
  const Rotation rotation = rotation_of_a_slice();
  EXPECT_TRUE(rc::check([&] {
    const std::int64_t block_size = *rc::gen::element(1, 3, 4, 16, 32, 64);
    const KvCacheOptions options{.num_kv_heads = 2,
                                 .head_dim = 9,
                                 .value_dim = 5,
                                 .dtype = *rc::gen::element(DType::f32, DType::f16, DType::bf16, DType::i8),
                                 .key_layout = *rc::gen::elementOf(key_layouts(block_size)),
                                 .rotation = *rc::gen::element<const Rotation*>(&rotation, nullptr),
                                 .num_sequences = num_sequences,
                                 .block_size = block_size,
                                 .num_blocks = *rc::gen::inRange<std::int64_t>(1, 40)};
    Twins both(options);
    for (const Operation& operation : *rc::gen::container<std::vector<Operation>>(operations())) {
      both.apply(operation);
      both.expect_no_block_lost();
    }
    expect_holds(both.cache, both.model);
    RC_ASSERT(!testing::Test::HasFailure());
  }));
}

/// splitmix64
std::uint32_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

TEST(KvCacheRandom, AHundredThousandStepsDriftNoFurtherThanTheirShiftsAllow_P19) {
  const Rotation rotation = rotation_of_a_slice();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const KvCacheOptions options{.num_kv_heads = 2,
                                 .head_dim = 9,
                                 .value_dim = 5,
                                 .dtype = dtype,
                                 .rotation = &rotation,
                                 .num_sequences = num_sequences,
                                 .block_size = 4,
                                 .num_blocks = 18};
    Twins both(options);
    constexpr Kind kinds[] = {Kind::append, Kind::append, Kind::append,         Kind::drop,
                              Kind::shift,  Kind::copy,   Kind::drop_and_close, Kind::shift};
    std::uint64_t state = 1;
    int most_shifts = 0;
    for (int step = 0; step < 100000; ++step) {
      Operation o{kinds[next_random(state) % 8],
                  next_random(state),
                  next_random(state),
                  next_random(state),
                  next_random(state),
                  static_cast<std::int32_t>(next_random(state) % 601) - 300};
      const bool drops = o.kind == Kind::drop || o.kind == Kind::drop_and_close;
      if (drops) o.length %= 6;                                      // so that tokens grow old
      if (dtype == DType::f32 && o.sequence % num_sequences == 0) {  // some of them as old as the test
        const auto size = static_cast<std::uint32_t>(both.model.sequences[0].size());
        constexpr std::uint32_t num_sinks = 8;
        if (drops) o.begin = size <= num_sinks ? size : num_sinks + o.begin % (size - num_sinks + 1);
        if (o.kind == Kind::shift) o.begin = 0;
      }
      both.apply(o);
      if (step % 500 == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_holds(both.cache, both.model)) << "step " << step;
        ASSERT_NO_FATAL_FAILURE(both.expect_no_block_lost());
      }
      for (const auto& sequence : both.model.sequences) {
        for (const ModelToken& token : sequence) most_shifts = std::max(most_shifts, token.num_shifts);
      }
    }
    expect_holds(both.cache, both.model);
    EXPECT_GT(most_shifts, dtype == DType::f32 ? 2000 : 30);
    EXPECT_GT(both.num_exhausted, 0);
  }
}

}  // namespace
}  // namespace rotary
