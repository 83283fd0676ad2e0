// Rows of queries or keys as the features that linear attention multiplies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attention/aligned_array.h"
#include "attention/angle_block.h"
#include "attention/arena.h"
#include "attention/feature_map.h"
#include "attention/linear_problem.h"
#include "attention/tensor_rows.h"
#include "kernels/rotate.h"

namespace rotary {

/// Some rows of q or k, one after another: `tokens` tokens of a head, or one token of `heads` heads.
struct RowRange {
  std::int64_t row, token, head;
  std::int64_t tokens = 1, heads = 1;

  std::int64_t count() const noexcept { return tokens * heads; }
};

/// Rows side by side: for the numerator (a_width numbers), the denominator (c_width), and the lengths of pairs (m_width).
template <class T>
struct LinearFeatures {
  const T *a, *c, *m;
};

/// The angles of q or k for LinearRows, if they turn. `scratch` as for AngleBlock.
template <class T>
std::optional<AngleBlock<T>> angle_block(const LinearProblem& problem, const std::optional<TokenAngles>& angles,
                                         std::int64_t most_tokens, Scratch* scratch = nullptr);

/// What features are made in, some rows of q or of k at a time.
template <class T>
struct LinearBuffers {
  T *x = nullptr, *turned_x = nullptr, *features = nullptr, *turned = nullptr, *lengths = nullptr;
};

/// How many numbers a row takes in each.
template <class T>
struct LinearBufferWidths {
  LinearBufferWidths(const LinearProblem& problem, const FeatureRows<T>& map) noexcept;

  /// `memory`: an Arena or a Scratch.
  template <class Memory>
  LinearBuffers<T> take(std::int64_t most_rows, Memory& memory) const {
    return {.x = memory.template take<T>(most_rows * x),
            .turned_x = memory.template take<T>(most_rows * turned_x),
            .features = memory.template take<T>(most_rows * features),
            .turned = memory.template take<T>(most_rows * turned),
            .lengths = memory.template take<T>(most_rows * lengths)};
  }

  std::int64_t x, turned_x, features, turned, lengths;
};

/// LinearBuffers in memory of their own.
template <class T>
struct OwnLinearBuffers {
  OwnLinearBuffers(const LinearProblem& problem, const FeatureRows<T>& map, std::int64_t most_rows);

  LinearBuffers<T> buffers;
  AlignedArray<std::byte> memory;
};

/// The rows of q or of k, for one task. Refers to all its arguments.
template <class T>
class LinearRows {
 public:
  /// Neither `angles` (nullptr where nothing turns) nor `buffers` need be for these rows alone; but what load() gives is then
  /// lost when others load.
  LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x, AngleBlock<T>* angles,
             LinearBuffers<T>& buffers);
  /// One row at a time.
  LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
             const std::optional<TokenAngles>& angles);
  LinearRows(const LinearRows&) = delete;
  LinearRows& operator=(const LinearRows&) = delete;

  /// For the rows of any head that will be loaded next.
  void hold_angles(std::int64_t row, std::int64_t first, std::int64_t count) {
    if (angles_ != nullptr) angles_->hold(row, first, count);
  }

  RowsAhead ahead(const RowRange& rows) const noexcept { return rows_.ahead(rows.row, rows.token, rows.head, rows.tokens); }

  /// Until the next load(). Rows that are not `present` (nullptr: all are) are zeros. Where features are exponents, each row
  /// raises `log_scale` to the largest of its own, if that is larger, is divided by exp(log_scale), and leaves it in
  /// `log_scales`; without a `log_scale` every row has its own. Other features leave both as they are.
  LinearFeatures<T> load(const RowRange& rows, const bool* present = nullptr, T* log_scale = nullptr,
                         T* log_scales = nullptr);
  /// One row, copied.
  void load(std::int64_t row, std::int64_t token, std::int64_t head, T* a, T* c, T* m, T& log_scale);

  /// From gradients with respect to what the last load() of one row gave, to those with respect to its row of q or k.
  void backward(const T* da, const T* dc, T* dx);

 private:
  LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
             std::unique_ptr<OwnLinearBuffers<T>> own_buffers);

  bool turns_x() const noexcept { return p_.rotation != nullptr && !p_.turns_features(); }
  const T* read(const RowRange& rows, std::int64_t& x_step);
  void map_and_turn(const RowRange& rows, const T* x, std::int64_t x_step) noexcept;
  /// `count` rows of the rotation's width; `to` must not be `from`.
  void turn(const RowRange& rows, const T* from, std::int64_t from_step, T* to) noexcept;
  void turn_one(const T* angles, const T* from, T* to) const noexcept;
  void lift(const RowRange& rows, const T* from, T* to) noexcept;
  void lift_one(const T* angles, const T* from, T* to) const noexcept;
  void turn_in_kernel(const RowRange& rows, const T* from, std::int64_t from_step, T* to) noexcept;
  void settle(std::int64_t count, const bool* present, T* log_scale, T* log_scales) noexcept;
  void leave_exponents(T* features, T& log_scale) const noexcept;
  void lengths(const T* features, T* to) const noexcept;
  void taylor_norms(const T* features, T* to) const noexcept;
  /// What turn() and lift() do, transposed.
  void turn_back(const T* from, T* to) const noexcept;
  void turn_back_lifted(const T* from, T* to) const noexcept;
  /// Adds the gradient with respect to features that belongs to `gradient`, of their lengths.
  void add_lengths_backward(const T* gradient, T* to) const noexcept;

  const LinearProblem& p_;
  const FeatureRows<T>& map_;
  TensorRows<ConstTensorView> rows_;
  std::optional<AngleBlock<T>> own_angles_;
  AngleBlock<T>* angles_;
  std::unique_ptr<OwnLinearBuffers<T>> own_buffers_;
  LinearBuffers<T>& buffers_;
  std::optional<PairFormat> format_;  // where pairs lie as the kernel of rotate wants them
  bool reads_in_place_;
  bool maps_and_turns_;                    // at once
  const T* last_x_ = nullptr;              // what features were made of
  std::vector<T> d_features_, turned_dx_;  // of backward()
  std::vector<std::int64_t> still_;        // features that belong to no pair
};

}  // namespace rotary
