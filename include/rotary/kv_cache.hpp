// Keys and values of the tokens so far, for one layer of attention and many sequences. Keys are rotated once, when they
// enter, rounded once, and kept rotated.
//
//     a sequence     a list of tokens, in blocks: token i lies in block block_table[i / block_size], slot i % block_size
//     a block        keys [kv head][slot][head_dim] (see KeyLayout), values [kv head][slot][value_dim], and the position of
//                    every slot
//     the pool       num_blocks blocks, made once; all memory there is
//
// One mechanism serves all uses (Kwon et al. 2023, PagedAttention):
//
//     contiguous     a block as long as the longest sequence
//     paged          small blocks, which sequences take as they grow and give back
//     ring           window_left: blocks that the next token cannot see go back to the pool
//     fork           copy() shares blocks; whoever writes into a shared block first gets a copy of it
//
// Tokens are named by their number in the sequence, from 0, positions are what they were rotated by: two things, which
// drop() and shift() pull apart. Operations do not mind in which order positions come.
//
// A call that throws Error changes nothing. Calls that write are not safe beside others on the same cache; calls that read
// are.
// Errors of all functions: Error (invalid_argument) for a sequence, token or block that is none, and for what each of them
// says; Error (exhausted) where the pool has too few free blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/angles.hpp"
#include "rotary/attention.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// How the keys of a block lie.
enum class KeyLayout : std::uint8_t {
  rows,  ///< [slot][channel]
  /// [slot / 16][channel][slot % 16], of bf16 [slot / 16][channel / 2][slot % 16][channel % 2]: a vector holds the same channel
  /// of 16 keys, whose scores then need no sum over its lanes. Decode takes up to a fifth less time where several query
  /// heads share a KV head; append(), shift() and attention with many queries take longer (docs/kv-cache.md, performance.md).
  /// block_size must be a multiple of 16.
  lanes,
};

struct KvCacheOptions {
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;   ///< width of keys
  std::int64_t value_dim = 0;  ///< width of values; 0: as head_dim
  /// Of keys and values: f32, f16, bf16, or i8 with a scale per token and head in float32 (largest size / 127; an error of
  /// half a scale at most in each number; a row with a NaN or an infinity becomes NaN).
  DType dtype = DType::f32;
  KeyLayout key_layout = KeyLayout::rows;
  const Rotation* rotation = nullptr;      ///< copied; of head_dim channels. nullptr: keys are kept as they come
  Precision precision = Precision::exact;  ///< of cos and sin, for keys and for the queries that meet them
  std::int64_t num_sequences = 1;          ///< their names are 0 … num_sequences - 1
  std::int64_t block_size = 32;            ///< tokens
  std::int64_t num_blocks = 0;             ///< of the pool
  /// How many tokens before itself a query sees, as in AttentionOptions; -1: all. Tokens behind the window of the next one
  /// are dropped when it enters, in whole blocks: until then queries of the tokens that entered last still find theirs.
  std::int64_t window_left = -1;
};

/// What happens to the positions of tokens that follow dropped ones.
enum class Gap : std::uint8_t {
  keep,   ///< they stay
  close,  ///< they are shifted, so that the first of them takes the position (on axis 0) of the first dropped token
};

struct KvState;

class ROTARY_API KvCache {
 public:
  /// The pool's memory is reserved here; the system provides it as it is first written.
  /// Error (unsupported): `precision` cannot express the rotation.
  explicit KvCache(const KvCacheOptions& options);
  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  /// Adds tokens at the end. k and v: f64, f32, f16 or bf16, axes S, H (KV heads) and D in any order, H may be missing where
  /// there is one; they must not lie in this cache. position_ids: i32, i64 or f64, axis S, and A where the rotation has
  /// several axes; not given: next_position() and on, on all axes. Bit for bit what rotate_to() makes of k in the cache's
  /// dtype.
  void append(std::int64_t sequence, const ConstTensorView& k, const ConstTensorView& v,
              const ConstTensorView& position_ids = {}, Executor* executor = nullptr);

  /// Keeps the first num_tokens. Where a window is kept, tokens that it has dropped do not come back: truncating to what
  /// there was before the last append() loses nothing.
  void truncate(std::int64_t sequence, std::int64_t num_tokens);
  void clear(std::int64_t sequence);

  /// Removes the tokens begin … end - 1; later ones move up. Moves less than a block of tokens where end - begin is a
  /// multiple of block_size, else all that follow.
  void drop(std::int64_t sequence, std::int64_t begin, std::int64_t end, Gap gap = Gap::keep);

  /// Moves the tokens begin … end - 1 by `distance` positions, on all axes alike: their keys are turned on where they lie, as
  /// by shift(). No position may become negative or exceed 2^53. Every shift rounds the keys once more: in float32 by 2^-22
  /// of a pair's length at most, in 16 bits by half a unit of theirs, in int8 by half a scale.
  void shift(std::int64_t sequence, std::int64_t begin, std::int64_t end, std::int64_t distance);

  /// Appends the tokens begin … end - 1 of one sequence to another, with their positions. Where begin, and the number of
  /// tokens in `to`, are multiples of block_size, blocks are shared and nothing is copied.
  void copy(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end);

  std::int64_t num_tokens(std::int64_t sequence) const;
  /// Of every token; of a rotation with several axes, one after the other: [token][axis].
  std::vector<double> positions(std::int64_t sequence) const;
  /// One more than the largest position; 0 for an empty sequence.
  double next_position(std::int64_t sequence) const;
  std::vector<std::int32_t> block_table(std::int64_t sequence) const;
  std::int64_t num_free_blocks() const noexcept;

  /// A block, as "HSD"; rows are padded to 64 bytes with zeros. Where keys are lanes, S of keys() is block_size / 16, and a row
  /// has the numbers of 16 slots in the order that KeyLayout says. Slots that no sequence uses hold anything. Valid as long as
  /// the cache, and may be read until the next call that writes.
  ConstTensorView keys(std::int64_t block) const;
  ConstTensorView values(std::int64_t block) const;
  /// Of i8: "HS", f32, what keys and values are to be multiplied by. Not given otherwise.
  ConstTensorView key_scales(std::int64_t block) const;
  ConstTensorView value_scales(std::int64_t block) const;

  /// The options in force: value_dim is set, and `rotation` is the cache's own copy.
  const KvCacheOptions& options() const noexcept;
  std::int64_t num_bytes() const noexcept;  ///< of the pool

 private:
  friend struct KvCacheAccess;
  KvState* state_;
};

/// attention() over cached keys and values, for prefill and decode: batch row b of q (or packed sequence b, with
/// options.cu_seqlens) attends to sequences[b] of the cache, whatever their lengths; a sequence may come twice. The keys of
/// these queries must have been appended already.
///
/// The queries turn by the cache's rotation. Without options.q_positions each stands where its own token does: query i of m
/// at the position of token num_tokens - m + i, which there must be. `causal` is Causal::bottom_right as a rule (it says
/// nothing where there is one query). A window is not the cache's by itself: give options.window_left.
///
/// Everything else is as attention() has it. K of attn_mask is the largest number of tokens, or of packed sequences that of
/// all. Refused are options that only two tensors could need: rotation, precision, table, k_positions, k_cu_seqlens,
/// k_document_ids, key_padding_mask.
ROTARY_API void attention(const ConstTensorView& q, const KvCache& cache, const std::vector<std::int64_t>& sequences,
                          const TensorView& out, const AttentionOptions& options = {});
/// What options.workspace must have for such a call.
ROTARY_API std::int64_t attention_workspace_bytes(const ConstTensorView& q, const KvCache& cache,
                                                  const std::vector<std::int64_t>& sequences, const TensorView& out,
                                                  const AttentionOptions& options = {});

}  // namespace rotary
