// Linear attention with the rotation inside: time grows with the length, memory does not.
//
//     out_i = sum_j (a_i . b_j) v_j / sum_j (c_i . e_j)         j over all keys, or j <= i where is_causal
//
// a, b are features of queries and keys, as FeatureMap makes them, turned (Su et al. 2021, RoFormer, equation 19); c, e are
// what the normalizer says. Since (a . b) v = a . (b v^T), keys and values are summed once into a state of features x values.
//
//     plain (Katharopoulos 2020)   no rotation
//     RoFormer, equation 19        a rotation: Rotate::after_map, Normalizer::features
//     Performer with RoPE          Rotate::before_map, Features::favor_plus
//     cosFormer (Qin et al. 2022)  Rotate::lifted by cosformer_rotation(width, M), Features::relu, Normalizer::rotated
//     LRPE (Qin et al. 2023)       Rotate::lifted by a rotation with a frequency per channel
//     retention (Sun et al. 2023)  Features::identity, Rotate::after_map, Normalizer::none, decay
//
// Which of them are functions of the distance alone, and which weights are probabilities: weight_kinds().
//
// q, k, v and out have the axes B, S, H, D in any order, B and H may be missing; or T, H, D together with cu_seqlens. Query
// head h uses KV head h / (num_q_heads / num_kv_heads). The width of v and out may differ from that of q and k.
//
// f64, f32, f16 or bf16, each tensor its own. Everything is computed, and summed, in double where one of them or the state
// is f64, else in float32; out is rounded once. A causal row's result has the same bits whatever comes after it, and none
// depends on the executor. A NaN that is seen shows; what the padding holds is never seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/feature_map.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// Where the rotation goes.
enum class Rotate : std::uint8_t {
  after_map,   ///< the features turn; the rotation's head_dim is their number
  before_map,  ///< q and k turn; its head_dim is their width
  lifted,      ///< feature p becomes the first channel of pair p, with 0 for the second; its head_dim is twice their number
};

/// What the sum of values is divided by: c and e.
enum class Normalizer : std::uint8_t {
  features,    ///< the features as they are before they turn: RoFormer's. Weights need not sum to 1, nor be bounded
  rotated,     ///< a and b: weights sum to 1, but the sum may come near 0 or below it; see LinearAttentionReport
  pair_norms,  ///< the length of each pair of features: weights need not sum to 1; the sum of their sizes is at most 1
  none,        ///< nothing
};

ROTARY_API const char* name(Rotate rotate) noexcept;
ROTARY_API const char* name(Normalizer normalizer) noexcept;

struct LinearAttentionOptions;

namespace detail {

ROTARY_API void* allocate_for_vectors(std::size_t num_bytes);
ROTARY_API void free_for_vectors(void* memory) noexcept;

/// Addresses at which a vector of numbers crosses no cache line.
template <class T>
struct VectorAllocator {
  using value_type = T;
  VectorAllocator() = default;
  template <class Other>
  VectorAllocator(const VectorAllocator<Other>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_for_vectors(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { free_for_vectors(memory); }
  bool operator==(const VectorAllocator&) const noexcept { return true; }
};

}  // namespace detail

/// The sums over all keys so far, from one call to the next; starts empty. Plain numbers: copy it to branch off. A call
/// that fails leaves it as it is.
class ROTARY_API LinearState {
 public:
  LinearState() = default;  ///< of the dtype in which its first call computes
  /// f32 or f64: the dtype in which its calls compute. Error (invalid_argument) for others.
  explicit LinearState(DType dtype);

  bool empty() const noexcept { return num_rows_ == 0; }
  void clear() noexcept { num_rows_ = 0; }
  DType dtype() const noexcept { return dtype_; }
  std::int64_t num_bytes() const noexcept;

  /// Adds the sums of the tokens that come next, which other calls made by the same method from a state that was empty: as if
  /// one call had gone over all of them, up to rounding. So parts of a stream can be summed at the same time and then brought
  /// together, in any grouping. Under a decay `passed` says what the later part leaves of an earlier key: decay to the power
  /// of its number of tokens (of a part that was itself combined, the product); axes among B and H, f32 or f64, above 0 and
  /// at most 1. Error (invalid_argument) for states of two shapes or dtypes; this one is then left as it is.
  void combine(const LinearState& later, const ConstTensorView& passed = {});

  /// Moves the origin: from now on every position is `distance` less, those of the keys in here and those of later calls.
  /// Where weights depend on distances alone nothing else changes. An endless stream keeps its positions small in this way;
  /// in float32 each call adds an error of at most 2^-22 of the sums. `options` are those of the calls: a rotation after_map
  /// or lifted. Error (invalid_argument) otherwise; Error (unsupported) before_map, where a map lies between the rotation and
  /// the sums.
  void rebase(double distance, const LinearAttentionOptions& options);

  /// sum b v^T, axes "BHND": batch rows (or packed sequences), KV heads, features (of a lifted map twice as many), values.
  /// favor_plus: without its 1 / sqrt(m), and divided by exp(log_scale).
  TensorView numerator() noexcept;
  TensorView denominator() noexcept;  ///< sum e, "BHN"
  TensorView magnitude() noexcept;    ///< "BHN": what `condition` needs, N is 0 where that is always 1
  TensorView log_scale() noexcept;    ///< "BH": the largest exponent so far of favor_plus, -infinity before its first key

 private:
  friend struct LinearStateAccess;
  void* part(int part) noexcept;

  DType dtype_ = DType::f32;
  bool any_dtype_ = true;  // until the first call
  std::int64_t num_rows_ = 0, num_kv_heads_ = 0, value_dim_ = 0;
  std::int64_t sizes_[4] = {};  // numbers per batch row and head in each of the four parts, which lie one after another
  std::vector<double, detail::VectorAllocator<double>> doubles_;
  std::vector<float, detail::VectorAllocator<float>> floats_;
};

struct LinearAttentionOptions {
  FeatureMap feature_map = {};
  const Rotation* rotation = nullptr;  ///< nullptr: nothing turns
  Rotate rotate = Rotate::after_map;
  Normalizer normalizer = Normalizer::features;
  Positions q_positions = {};  ///< need a rotation, like k_positions. A stream's later calls say where they begin
  Positions k_positions = {};

  bool is_causal = false;  ///< then there are as many queries as keys
  /// Boolean, axes among B and S (or T), true: a token. A key that is no token is as if it were not there: it is in no sum
  /// and decays nothing.
  ConstTensorView key_padding_mask = {};
  ConstTensorView cu_seqlens = {};  ///< packed sequences, of q and k alike; positions count from 0 in each unless given
  /// Of each KV head: axis H, f32 or f64, above 0 and at most 1. Key j counts decay^(i - j) for query i. Needs is_causal.
  ConstTensorView decay = {};
  /// Read, and left with the keys of this call added. Without is_causal queries see them all.
  LinearState* state = nullptr;
  std::int64_t chunk_size = 16;  ///< tokens that are computed together, 1 to 1024; changes nothing but rounding and speed
  Executor* executor = nullptr;
};

/// What an expert wants to know of the denominators. Rows are queries of all heads.
struct LinearAttentionReport {
  std::int64_t num_rows = 0;
  /// Rows of zeros: the denominator is 0 or below the smallest normal number, or, where terms may cancel, so small that
  /// rounding decides its value (condition above 2^17 in float32, 2^46 in double). Products of favor_plus come to that, in
  /// float32, from |x'|^2 of about 600 on.
  std::int64_t num_zero_rows = 0;
  std::int64_t num_negative_denominators = 0;
  std::int64_t num_non_finite_denominators = 0;  ///< infinite or NaN: by what was given, or by overflow
  /// The largest bound on sum |c_f e_f| / |sum c_f e_f|, over keys and features, of the other rows: what a rounding error is
  /// multiplied by. 1 where no term can be negative. taylor2 has negative terms though no weight is: rows that are long and
  /// nearly at right angles, where |q'|^2 |k'|^2 / 2 is much more than 1.
  double worst_condition = 1;
};

/// `out` (axes as q, D as v) must overlap neither itself nor anything else that is given. Errors: Error (invalid_argument)
/// with the rule that the arguments break; nothing is written in that case.
ROTARY_API LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k,
                                                  const ConstTensorView& v, const TensorView& out,
                                                  const LinearAttentionOptions& options = {});

/// Where gradients go, each of any float dtype; one that is not given is not computed. Padded keys and values get 0.
struct LinearGradients {
  TensorView q = {};  ///< shaped like q, and so on
  TensorView k = {};
  TensorView v = {};
  /// What a later part of the stream left here, the gradient with respect to the sums after this call (empty: 0), becomes
  /// that with respect to the sums before it: numerator and denominator; the other parts stay as they are.
  LinearState* state = nullptr;
};

/// The gradients of sum(out * dout), out being what linear_attention makes of the same arguments; options.state is the state
/// before that call, and is left as it is. `dout` is shaped like out. A row of zeros has none. favor_plus: with respect to q
/// and k for the given projection, not together with a state.
///
/// Recomputes sums forwards and backwards, never by subtraction: memory for two states, and two numbers per row. chunk_size
/// is not used.
ROTARY_API LinearAttentionReport linear_attention_backward(const ConstTensorView& q, const ConstTensorView& k,
                                                           const ConstTensorView& v, const ConstTensorView& dout,
                                                           const LinearGradients& gradients,
                                                           const LinearAttentionOptions& options = {});

/// The weights (a_i . b_j) / sum_j (c_i . e_j) of a call, which linear_attention never forms. Of pairs that are seen.
struct LinearWeights {
  std::int64_t num_weights = 0;
  std::int64_t num_negative = 0;
  double lowest = 0, highest = 0;  ///< these four: NaN where a weight is
  double lowest_row_sum = 0, highest_row_sum = 0;
};

/// To look at: takes time that grows with the square of the length, and computes in double. `weights` may be not given;
/// f64 or f32, axes B, H, Q, K, it receives every weight, 0 where a key is not seen. Packed tokens, a state and a decay are
/// refused.
ROTARY_API LinearWeights linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                                        const LinearAttentionOptions& options = {});

/// What is true of a method's weights, whatever q and k are.
struct WeightKinds {
  bool relative;      ///< they depend on positions through distances alone (favor_plus before_map: only on average)
  bool non_negative;  ///< of lifted features: while no pair has turned by a right angle; of cosFormer: up to the distance M
  bool sum_to_one;    ///< of each row, where its denominator is not 0
};

ROTARY_API WeightKinds weight_kinds(const LinearAttentionOptions& options) noexcept;

/// For Rotate::lifted: every channel's pair turns by pi / (2 M) per position, so that a weight is that of the features times
/// cos(pi / 2 (i - j) / M). M is a constant of the model, not the length: a state made with another M is another state.
ROTARY_API Rotation cosformer_rotation(std::int64_t head_dim, double M);

}  // namespace rotary
