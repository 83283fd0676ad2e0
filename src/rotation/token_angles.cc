#include "rotation/token_angles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>

#include "base/fail.h"

namespace rotary {
namespace {

/// How angles are computed, if they are: a table needs none of ggml's conditions on the rotation.
Precision recipe(const RotateOptions& options) {
  return options.table != nullptr && options.precision == Precision::ggml ? Precision::exact : options.precision;
}

}  // namespace

TokenAngles::TokenAngles(const char* operation, const Rotation& rotation, const Positions& positions, const Tokens& tokens,
                         const RotateOptions& options)
    : rotation_(rotation),
      precision_(options.precision),
      rows_(operation, rotation, recipe(options)),
      sign_(rotation.direction()),
      table_(options.table) {
  if (table_ == nullptr || !table_->per_token()) positions_.emplace(operation, positions, tokens, rotation.num_axes());
  if (table_ == nullptr) check_positions(tokens);
  else check_table(operation, positions, tokens);
}

TokenAngles::TokenAngles(const char* operation, const Rotation& rotation, const TokenPositions& positions,
                         const Tokens& tokens, Precision precision)
    : rotation_(rotation),
      precision_(precision),
      rows_(operation, rotation, precision),
      sign_(rotation.direction()),
      positions_(positions) {
  check_positions(tokens);
}

void TokenAngles::check_positions(const Tokens& tokens) const {
  if (rotation_.max_abs_inv_freq() <= 0x1p7) return;  // positions are at most 2^53 in size: no angle can be too large
  double position[max_position_axes];
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    for (std::int64_t s = 0; s < tokens.length; ++s) {
      positions_->read(b, s, position);
      for (int a = 0; a < rotation_.num_axes(); ++a) rows_.check_position(position[a]);
    }
  }
}

void TokenAngles::check_table_is_for_rotation(const char* operation) const {
  const Rotation& other = table_->rotation();
  if (other.num_pairs() != rotation_.num_pairs()) {
    fail_argument(operation, "the table must have one column per pair of the rotation, got ", other.num_pairs(), " for ",
                  rotation_.num_pairs());
  }
  if (other.amplitude() != rotation_.amplitude()) {
    fail_argument(operation, "the table must have the amplitude of the rotation, got ", other.amplitude(), " for ",
                  rotation_.amplitude());
  }
  if (table_->is_given()) return;  // its frequencies are not known
  const std::size_t num_bytes = rotation_.inv_freq().size() * sizeof(double);
  if (std::memcmp(other.inv_freq().data(), rotation_.inv_freq().data(), num_bytes) == 0) return;
  const auto [theirs, ours] = std::mismatch(other.inv_freq().begin(), other.inv_freq().end(), rotation_.inv_freq().begin());
  if (theirs != other.inv_freq().end()) {
    fail_argument(operation, "the table must be built from the inv_freq of the rotation, got ", *theirs, " for ", *ours,
                  " in pair ", theirs - other.inv_freq().begin());
  }
}

void TokenAngles::check_table(const char* operation, const Positions& positions, const Tokens& tokens) {
  check_table_is_for_rotation(operation);
  if (table_->per_token()) {
    if (positions.offset != 0 || positions.offsets || positions.position_ids || positions.cu_seqlens) {
      fail_argument(operation, "a table with one row per token leaves no use for positions: give none");
    }
    const std::int64_t batch = table_->batch_size();
    const std::int64_t length = batch > 0 ? table_->num_rows() / batch : 0;
    if ((batch != 1 && batch != tokens.batch) || length != tokens.length) {
      fail_argument(operation, "the table must have one row per token, got ", batch, " x ", length, " for ", tokens.batch,
                    " x ", tokens.length, " tokens");
    }
    table_row_stride_ = batch == 1 ? 0 : length;
    return;
  }
  const auto first = static_cast<double>(table_->first_position());
  const double end = first + static_cast<double>(table_->num_rows());
  if (positions_->is_counted()) {  // by whole numbers
    const PositionRange range = positions_->range(tokens);
    if (range.lowest >= first && range.highest < end) return;
  }
  double position[max_position_axes];
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    for (std::int64_t s = 0; s < tokens.length; ++s) {
      positions_->read(b, s, position);
      for (int a = 0; a < rotation_.num_axes(); ++a) {
        if (position[a] >= first && position[a] < end && position[a] == std::floor(position[a])) continue;
        fail_argument(operation, "the table must have a row for every position, got position ", position[a], " of token ",
                      s, " in row ", b, " and rows ", first, " to ", end - 1);
      }
    }
  }
}

bool TokenAngles::repeats(std::int64_t row, std::int64_t token) const noexcept {
  if (token == 0 || !positions_ || positions_->is_counted()) return false;
  double position[max_position_axes], others[max_position_axes];
  positions_->read(row, token, position);
  positions_->read(row, token - 1, others);
  return std::equal(position, position + rotation_.num_axes(), others);
}

TokenAngles::TableRows TokenAngles::table_rows(std::int64_t row, std::int64_t first, std::int64_t count) const noexcept {
  if (table_ == nullptr || factor_ != 1 || sign_ < 0 || rotation_.num_axes() != 1) return {};
  if (table_->per_token()) return {table_, row * table_row_stride_ + first, count};
  double position = 0;
  positions_->read(row, first, &position);
  const std::int64_t index = static_cast<std::int64_t>(position) - table_->first_position();
  return {table_, index, positions_->count_on(row, first, count)};
}

template <class T>
void TokenAngles::look_up(std::int64_t row, std::int64_t token, T* cos, T* sin) const noexcept {
  const std::int64_t num_pairs = rotation_.num_pairs();
  const auto copy = [&](std::int64_t index) {
    std::copy_n(table_->cos(index), num_pairs, cos);
    std::copy_n(table_->sin(index), num_pairs, sin);
  };
  if (table_->per_token()) return copy(row * table_row_stride_ + token);

  double position[max_position_axes];
  positions_->read(row, token, position);
  const auto row_of = [&](int axis) { return static_cast<std::int64_t>(position[axis]) - table_->first_position(); };
  if (rotation_.num_axes() == 1) return copy(row_of(0));
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    const std::int64_t index = row_of(rotation_.axis()[static_cast<std::size_t>(j)]);
    cos[j] = table_->cos(index)[j];
    sin[j] = table_->sin(index)[j];
  }
}

template <class T>
void TokenAngles::read(std::int64_t row, std::int64_t token, T* cos, T* sin) const noexcept {
  if (table_ != nullptr) {
    look_up(row, token, cos, sin);
    scale_row(rotation_.num_pairs(), factor_, cos, sin);
  } else {
    double position[max_position_axes];
    positions_->read(row, token, position);
    rows_.row(position, cos, sin, factor_);
  }
  if (sign_ < 0) std::transform(sin, sin + rotation_.num_pairs(), sin, std::negate<T>());
}
template void TokenAngles::read(std::int64_t, std::int64_t, float*, float*) const noexcept;
template void TokenAngles::read(std::int64_t, std::int64_t, double*, double*) const noexcept;

std::int64_t TokenAngles::run_length(std::int64_t row, std::int64_t first, std::int64_t count) const noexcept {
  const std::int64_t length = table_ == nullptr ? positions_->count_on(row, first, count) : 1;
  if (length <= 1) return 1;
  double position[max_position_axes];
  positions_->read(row, first, position);
  return rows_.can_run(position[0], length, factor_) ? length : 1;
}

void TokenAngles::read_together(std::int64_t row, std::int64_t first, std::int64_t count, AngleSteps& steps, float* cos,
                                float* sin, std::int64_t step) const noexcept {
  double position[max_position_axes];
  positions_->read(row, first, position);
  rows_.run(position[0], count, steps, cos, sin, step, factor_);
  for (std::int64_t i = 0; sign_ < 0 && i < count; ++i) {
    float* const of_token = sin + i * step;
    std::transform(of_token, of_token + rotation_.num_pairs(), of_token, std::negate<float>());
  }
}

}  // namespace rotary
