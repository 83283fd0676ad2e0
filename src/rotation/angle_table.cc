#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "base/checked.h"
#include "base/element.h"
#include "base/fail.h"
#include "kernels/angle_runs.h"
#include "rotary/angles.hpp"
#include "rotation/angles.h"

namespace rotary {
namespace {

constexpr std::int64_t rows_per_block = 256;

/// cos, then sin, of up to rows_per_block rows. Never written once it is in a table.
struct Block {
  std::unique_ptr<float[]> values;
  std::int64_t num_rows;
};

}  // namespace

struct AngleTable::Rows {
  explicit Rows(const Rotation& turned) : rotation(turned), num_pairs(turned.num_pairs()) {}

  float* cos(std::int64_t row) const noexcept {
    return blocks[block(row)]->values.get() + row % rows_per_block * num_pairs;
  }
  float* sin(std::int64_t row) const noexcept {
    const Block& b = *blocks[block(row)];
    return b.values.get() + (b.num_rows + row % rows_per_block) * num_pairs;
  }

  /// Room for rows up to `count`, behind whole blocks.
  void reserve_blocks(std::int64_t count) {
    for (auto begin = static_cast<std::int64_t>(blocks.size()) * rows_per_block; begin < count; begin += rows_per_block) {
      const std::int64_t height = std::min(rows_per_block, count - begin);
      const auto num_values = static_cast<std::size_t>(2 * height * num_pairs);
      blocks.push_back(std::make_shared<const Block>(Block{std::make_unique_for_overwrite<float[]>(num_values), height}));
    }
    num_rows = count;
  }

  /// The rows begin … num_rows - 1 from the rotation.
  void compute_rows(std::int64_t begin) {
    const AngleRows angle_rows("AngleTable", rotation, precision);
    std::unique_ptr<double[]> room;
    if (num_rows - begin >= fewest_tokens_for_runs) {
      room = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(angle_steps_size(num_pairs)));
    }
    AngleSteps steps{.numbers = room.get()};
    for (std::int64_t row = begin; row < num_rows;) {
      double position[max_position_axes];
      std::fill_n(position, max_position_axes, static_cast<double>(first + row));
      const std::int64_t side_by_side = std::min(num_rows - row, rows_per_block - row % rows_per_block);
      const std::int64_t count = std::min(angle_run, side_by_side);
      if (room != nullptr && angle_rows.can_run(position[0], count)) {
        angle_rows.run(position[0], count, steps, cos(row), sin(row), num_pairs);
        row += count;
      } else {
        angle_rows.row(position, cos(row), sin(row));
        ++row;
      }
    }
  }

  static std::size_t block(std::int64_t row) noexcept { return static_cast<std::size_t>(row / rows_per_block); }

  Rotation rotation;
  std::int64_t num_pairs;
  Precision precision = Precision::exact;
  std::int64_t first = 0;
  std::int64_t num_rows = 0;
  std::int64_t batch_size = 1;
  bool per_token = false;
  bool is_given = false;
  std::vector<std::shared_ptr<const Block>> blocks;
  std::atomic<std::int64_t> users{1};
};

namespace {

constexpr const char* operation = "AngleTable";

void check_range(const Rotation& rotation, Precision precision, std::int64_t first, std::int64_t count) {
  if (count < 0) fail_argument(operation, "count must not be negative, got ", count);
  const auto bytes = checked_mul(count, 2 * static_cast<std::int64_t>(sizeof(float)) * rotation.num_pairs());
  const auto end = checked_add(first, count);
  if (!bytes || !end)
    fail_argument(operation, "first + count and the size must be representable, got ", first, " and ", count);
  const AngleRows rows(operation, rotation, precision);
  if (count == 0) return;
  for (const std::int64_t position : {first, *end - 1}) {
    constexpr std::int64_t most = std::int64_t{1} << 53;  // compared as integers: beyond, doubles have gaps
    if (position < -most || position > most) {
      fail_argument(operation, "positions must be at most 2^53 in size, got ", position);
    }
    rows.check_position(static_cast<double>(position));
  }
}

/// The two columns of every pair in a given table: the same one where it has a column per pair.
std::vector<Pair> table_columns(const Rotation& rotation, std::int64_t width) {
  std::vector<Pair> columns;
  if (width == rotation.num_pairs()) {
    for (std::int64_t j = 0; j < width; ++j) columns.push_back({j, j});
    return columns;
  }
  // A column per channel that turns, in the order of the channels.
  std::vector<std::int64_t> channels;
  for (const Pair& pair : rotation.pairs_in()) channels.insert(channels.end(), {pair.first, pair.second});
  std::sort(channels.begin(), channels.end());
  const auto column = [&](std::int64_t channel) {
    return std::lower_bound(channels.begin(), channels.end(), channel) - channels.begin();
  };
  for (const Pair& pair : rotation.pairs_in()) columns.push_back({column(pair.first), column(pair.second)});
  return columns;
}

void check_given(const Rotation& rotation, const ConstTensorView& cos, const ConstTensorView& sin) {
  for (const ConstTensorView* view : {&cos, &sin}) {
    if (!*view) fail_argument(operation, "needs both cos and sin");
    if (!is_real_float(view->dtype())) {
      fail_argument(operation, "cos and sin must be float64, float32, float16 or bfloat16, got ", name(view->dtype()));
    }
    const bool by_position = view->rank() == 2 && view->has('N') && view->has('D');
    const bool by_token = view->rank() == 2 && (view->has('S') || view->has('T')) && view->has('D');
    const bool by_row_and_token = view->rank() == 3 && view->has('B') && view->has('S') && view->has('D');
    if (!by_position && !by_token && !by_row_and_token) {
      fail_argument(operation, "cos and sin must have the axes ND (by position), SD, BSD or TD (by token), got \"",
                    view->axes().c_str(), "\"");
    }
    const std::int64_t width = view->size('D');
    if (width != rotation.num_pairs() && width != rotation.rotary_dim()) {
      fail_argument(operation, "cos and sin must have one column per pair or per channel that turns, got ", width,
                    " columns for ", rotation.num_pairs(), " pairs");
    }
  }
  for (const char axis : {'N', 'B', 'S', 'T', 'D'}) {
    if (cos.has(axis) != sin.has(axis) || cos.size(axis) != sin.size(axis)) {
      fail_argument(operation, "cos and sin must have the same axes and lengths, got ", axis, " of ", cos.size(axis),
                    " and ", sin.size(axis));
    }
  }
}

/// How far cos^2 + sin^2 may be from amplitude^2, relatively: rounding to the dtype, twice over.
double table_tolerance(DType dtype) { return dtype == DType::bf16 ? 0x1p-6 : 0x1p-8; }

}  // namespace

AngleTable AngleTable::build(const Rotation& rotation, std::int64_t first, std::int64_t count, Precision precision) {
  check_range(rotation, precision, first, count);
  auto rows = std::make_unique<Rows>(rotation);
  rows->precision = precision;
  rows->first = first;
  rows->reserve_blocks(count);
  rows->compute_rows(0);
  return AngleTable(rows.release());
}

AngleTable AngleTable::given(const Rotation& rotation, const ConstTensorView& cos, const ConstTensorView& sin) {
  check_given(rotation, cos, sin);
  const char token_axis = cos.has('N') ? 'N' : cos.has('S') ? 'S' : 'T';
  const std::int64_t num_tokens = cos.size(token_axis);
  const std::vector<Pair> columns = table_columns(rotation, cos.size('D'));

  auto rows = std::make_unique<Rows>(rotation);
  rows->is_given = true;
  rows->per_token = token_axis != 'N';
  rows->batch_size = cos.size('B');
  rows->reserve_blocks(cos.size('B') * num_tokens);

  const auto value = [](const ConstTensorView& view, std::int64_t start, std::int64_t column) {
    return load_element(view.dtype(), view.data(), start + column * view.stride('D'));
  };
  const double square = rotation.amplitude() * rotation.amplitude();
  const double tolerance = square * std::max(table_tolerance(cos.dtype()), table_tolerance(sin.dtype()));

  for (std::int64_t row = 0; row < rows->num_rows; ++row) {
    const std::int64_t batch = row / num_tokens, token = row % num_tokens;
    const std::int64_t cos_start = batch * cos.stride('B') + token * cos.stride(token_axis);
    const std::int64_t sin_start = batch * sin.stride('B') + token * sin.stride(token_axis);
    for (std::int64_t j = 0; j < rows->num_pairs; ++j) {
      const auto [first, second] = columns[static_cast<std::size_t>(j)];
      const double c = value(cos, cos_start, first), s = value(sin, sin_start, first);
      if (!(std::abs(c * c + s * s - square) <= tolerance)) {
        fail_argument(operation, "cos^2 + sin^2 must be amplitude^2 = ", square, ", got cos ", c, " and sin ", s,
                      " for pair ", j, " of row ", row);
      }
      if (value(cos, cos_start, second) != c || value(sin, sin_start, second) != s) {
        fail_argument(operation, "both channels of a pair must have the same cos and sin, or the map is no rotation; pair ",
                      j, " of row ", row, " has cos ", c, " and ", value(cos, cos_start, second), ", sin ", s, " and ",
                      value(sin, sin_start, second), " (is the table laid out for another pairing?)");
      }
      rows->cos(row)[j] = static_cast<float>(c);
      rows->sin(row)[j] = static_cast<float>(s);
    }
  }
  return AngleTable(rows.release());
}

AngleTable::AngleTable(const AngleTable& other) noexcept : rows_(other.rows_) {
  rows_->users.fetch_add(1, std::memory_order_relaxed);
}

AngleTable& AngleTable::operator=(const AngleTable& other) noexcept {
  AngleTable copy(other);
  std::swap(rows_, copy.rows_);
  return *this;
}

AngleTable::~AngleTable() {
  if (rows_->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rows_;
}

AngleTable AngleTable::extended(std::int64_t count) const {
  if (count <= num_rows()) return *this;
  if (rows_->is_given) {
    fail_argument(operation, "a given table has no rule for further rows, got ", count, " and ", num_rows(), " rows");
  }
  check_range(rows_->rotation, rows_->precision, rows_->first, count);

  auto longer = std::make_unique<Rows>(rows_->rotation);
  longer->precision = rows_->precision;
  longer->first = rows_->first;
  // Whole blocks are shared. The rows of the last one, if it is not whole, are copied.
  const std::int64_t shared = num_rows() / rows_per_block;
  longer->blocks.assign(rows_->blocks.begin(), rows_->blocks.begin() + shared);
  longer->reserve_blocks(count);
  for (std::int64_t row = shared * rows_per_block; row < num_rows(); ++row) {
    std::copy_n(cos(row), num_pairs(), longer->cos(row));
    std::copy_n(sin(row), num_pairs(), longer->sin(row));
  }
  longer->compute_rows(num_rows());
  return AngleTable(longer.release());
}

std::int64_t AngleTable::first_position() const noexcept { return rows_->first; }
std::int64_t AngleTable::num_rows() const noexcept { return rows_->num_rows; }
std::int64_t AngleTable::num_pairs() const noexcept { return rows_->num_pairs; }
const Rotation& AngleTable::rotation() const noexcept { return rows_->rotation; }
bool AngleTable::is_given() const noexcept { return rows_->is_given; }
bool AngleTable::per_token() const noexcept { return rows_->per_token; }
std::int64_t AngleTable::batch_size() const noexcept { return rows_->batch_size; }
const float* AngleTable::cos(std::int64_t row) const noexcept { return rows_->cos(row); }
const float* AngleTable::sin(std::int64_t row) const noexcept { return rows_->sin(row); }

}  // namespace rotary
