// Positions with several axes: which axis drives which pair, and where the tokens of pictures and videos stand.
//
// An axis map is plain data for RotationSpec::axis, one entry per pair. `sections` are pair counts, as in the configs' own
// lists (mrope_section, xdrope_section, rope.dimension_sections of GGUF); their sum is the number of pairs.
// The axes themselves are the rows of Positions::position_ids ("AS"); text has the same number in each row.
//
// Errors: Error (invalid_argument) naming the rule. Drawings and the models that use each map: docs/frequencies.md.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// Axis 0 for the first sections[0] pairs, axis 1 for the next sections[1], …: TTTT HHHHHH WWWWWW.
/// Qwen2-VL and Qwen2.5-VL (16, 24, 24), GLM-4V (8, 12, 12), XD-RoPE (16, 16, 16, 16 in the order index, w, h, t), picture
/// towers (rows, columns), FLUX and Wan.
ROTARY_API std::vector<std::uint8_t> chunked_axes(const std::vector<std::int64_t>& sections);

/// sections (t, h, w), dealt in turn while h and w last, t for the rest: THW THW … TTTT.
/// Qwen3-VL (24, 20, 20), Qwen3.5 (11, 11, 10): the key mrope_interleaved.
ROTARY_API std::vector<std::uint8_t> interleaved_axes(const std::vector<std::int64_t>& sections);

/// What ggml's IMROPE makes of sections (t, h, w, fourth): dealt in turn, but where the turn's own axis is used up a pair
/// follows axis 3, not t. With (24, 20, 20, 0) those are pairs 61 and 62; llama.cpp feeds that axis with 0, so they stand
/// still, while interleaved_axes turns them by t.
ROTARY_API std::vector<std::uint8_t> ggml_interleaved_axes(const std::vector<std::int64_t>& sections);

/// sections (h, w, t) as Ernie-4.5-VL writes them (22, 22, 20): h and w take turns, then t: HWHW … TTTT. h equals w.
/// Axes are numbered t 0, h 1, w 2, as everywhere. (Ling-VL has the same map and lists the sections as t, h, w.)
ROTARY_API std::vector<std::uint8_t> ernie_axes(const std::vector<std::int64_t>& sections);

/// openPangu-VL, as vLLM's MRotaryEmbeddingInterleaved deals it: each pair goes to the axis that has received the smallest
/// share of its section and is not that of the pair before; of three sections, the first keeps one pair for the very end.
ROTARY_API std::vector<std::uint8_t> pangu_axes(const std::vector<std::int64_t>& sections);

/// Axes taking turns pair by pair: 0 1 0 1 … (moonvit_frequencies).
ROTARY_API std::vector<std::uint8_t> alternating_axes(std::int64_t num_axes, std::int64_t num_pairs);

/// Pairs for Pairing::listed where each axis owns a block of channels whose halves pair up: channels (j, j + dim / 2) of
/// each block. Gemma 4 vision: {D/2, D/2}.
ROTARY_API std::vector<Pair> block_half_pairs(const std::vector<std::int64_t>& block_dims);

// ---- Where tokens stand ------------------------------------------------------------------------------------------------

/// A stretch of a prompt: text tokens, or a picture or video as a grid of patches.
struct MropeSpan {
  std::int64_t text_tokens = 0;  ///< this many text tokens, or else a grid:
  std::int64_t grid_t = 0;
  std::int64_t grid_h = 0;  ///< in patches, before merging; multiples of spatial_merge_size
  std::int64_t grid_w = 0;
  /// Positions from one frame to the next, fractions included. For Qwen2.5-VL
  ///     transformers 5         tokens_per_second * (second_per_grid_t without its fraction): 0 below a second per grid
  ///     transformers 4, vLLM   tokens_per_second * second_per_grid_t, with whole_frames
  double time_step = 1;
  bool whole_frames = false;  ///< frame n stands at n * time_step without its fraction
};

/// Where the text after a grid goes on. The two differ for videos longer than they are wide.
enum class MropeNext : std::uint8_t {
  after_largest_position,  ///< one past the largest position on any axis   (transformers 4, vLLM, mlx-vlm)
  after_largest_side,      ///< start of the grid + max(height, width) after merging   (transformers 5, Qwen2-VL family)
};

struct MropePositions {
  std::vector<double> position_ids;  ///< 3 x num_tokens, row-major: t, h, w
  std::int64_t num_tokens = 0;
  double delta = 0;  ///< largest position + 1 - num_tokens: token n of what follows stands at n + delta on all axes
};

/// Positions of the Qwen2-VL family (get_rope_index of transformers, given its time step and MropeNext). A grid's tokens
/// come frame by frame, row by row.
ROTARY_API MropePositions mrope_positions(const std::vector<MropeSpan>& spans, std::int64_t spatial_merge_size,
                                          MropeNext next);

/// Rows and columns of a picture's patches, 2 x (height * width), row-major. With merge_size m, the patches of each m x m
/// block follow each other, as Qwen's towers order them; m divides height and width.
ROTARY_API std::vector<double> grid_positions(std::int64_t height, std::int64_t width, std::int64_t merge_size = 1);

/// The centre of patch `index` of `count` on a scale from -1 to 1 (DINOv3).
ROTARY_API double patch_center(std::int64_t index, std::int64_t count);

}  // namespace rotary
