// Where the tokens of texts, pictures and videos stand.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/fail.h"
#include "rotary/position_axes.hpp"

namespace rotary {
namespace {

constexpr std::int64_t max_tokens = std::int64_t{1} << 31;

bool is_text(const MropeSpan& span) { return span.grid_t == 0 && span.grid_h == 0 && span.grid_w == 0; }

void check_side(const char* operation, const char* what, std::int64_t side, std::int64_t merge_size) {
  if (side < 1 || side % merge_size != 0) {
    fail_argument(operation, what, " must be a positive multiple of the merge size, got ", side, " and ", merge_size);
  }
}

void check_span(const char* operation, const MropeSpan& span, std::int64_t merge_size) {
  if (is_text(span)) {
    if (span.text_tokens < 0) fail_argument(operation, "text_tokens must not be negative, got ", span.text_tokens);
    return;
  }
  if (span.text_tokens != 0) fail_argument(operation, "a span is either text or a grid, got both");
  if (span.grid_t < 1) fail_argument(operation, "grid_t must be at least 1, got ", span.grid_t);
  check_side(operation, "grid_h", span.grid_h, merge_size);
  check_side(operation, "grid_w", span.grid_w, merge_size);
  if (!(std::isfinite(span.time_step) && span.time_step >= 0)) {
    fail_argument(operation, "time_step must be finite and not negative, got ", span.time_step);
  }
}

/// The number of tokens of all spans; refuses more than max_tokens before anything is allocated.
std::int64_t count_tokens(const char* operation, const std::vector<MropeSpan>& spans, std::int64_t merge_size) {
  std::int64_t total = 0;
  for (const MropeSpan& span : spans) {
    check_span(operation, span, merge_size);
    const auto tokens = is_text(span)
                            ? span.text_tokens
                            : checked_product(std::vector{span.grid_t, span.grid_h / merge_size, span.grid_w / merge_size});
    if (!tokens || *tokens > max_tokens - total) {
      fail_argument(operation, "the spans must have at most ", max_tokens, " tokens together");
    }
    total += *tokens;
  }
  return total;
}

/// Fills the three rows token by token.
class Writer {
 public:
  explicit Writer(MropePositions& out) : out_(out) {}

  void put(double t, double h, double w) {
    double* ids = out_.position_ids.data();
    ids[written_] = t;
    ids[out_.num_tokens + written_] = h;
    ids[2 * out_.num_tokens + written_] = w;
    ++written_;
    end_ = std::max({end_, t + 1, h + 1, w + 1});
  }
  /// One past the largest position so far.
  double end() const { return end_; }

 private:
  MropePositions& out_;
  std::int64_t written_ = 0;
  double end_ = 0;
};

}  // namespace

MropePositions mrope_positions(const std::vector<MropeSpan>& spans, std::int64_t spatial_merge_size, MropeNext next) {
  constexpr const char* operation = "mrope_positions";
  if (spatial_merge_size < 1) fail_argument(operation, "spatial_merge_size must be at least 1, got ", spatial_merge_size);
  MropePositions result;
  result.num_tokens = count_tokens(operation, spans, spatial_merge_size);
  result.position_ids.resize(static_cast<std::size_t>(3 * result.num_tokens));

  Writer writer(result);
  double start = 0;
  for (const MropeSpan& span : spans) {
    if (is_text(span)) {
      for (std::int64_t i = 0; i < span.text_tokens; ++i) {
        writer.put(start, start, start);
        ++start;
      }
      continue;
    }
    const std::int64_t height = span.grid_h / spatial_merge_size, width = span.grid_w / spatial_merge_size;
    for (std::int64_t t = 0; t < span.grid_t; ++t) {
      const double time = static_cast<double>(t) * span.time_step;
      const double frame = start + (span.whole_frames ? std::floor(time) : time);
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          writer.put(frame, start + static_cast<double>(y), start + static_cast<double>(x));
        }
      }
    }
    start = next == MropeNext::after_largest_side ? start + static_cast<double>(std::max(height, width)) : writer.end();
  }
  result.delta = writer.end() - static_cast<double>(result.num_tokens);
  return result;
}

std::vector<double> grid_positions(std::int64_t height, std::int64_t width, std::int64_t merge_size) {
  constexpr const char* operation = "grid_positions";
  if (merge_size < 1) fail_argument(operation, "merge_size must be at least 1, got ", merge_size);
  check_side(operation, "height", height, merge_size);
  check_side(operation, "width", width, merge_size);
  const auto count = checked_mul(height, width);
  if (!count || *count > max_tokens) fail_argument(operation, "a grid must have at most ", max_tokens, " patches");

  std::vector<double> rows, columns;
  for (std::int64_t y = 0; y < height; y += merge_size) {
    for (std::int64_t x = 0; x < width; x += merge_size) {
      for (std::int64_t row = y; row < y + merge_size; ++row) {
        for (std::int64_t column = x; column < x + merge_size; ++column) {
          rows.push_back(static_cast<double>(row));
          columns.push_back(static_cast<double>(column));
        }
      }
    }
  }
  rows.insert(rows.end(), columns.begin(), columns.end());
  return rows;
}

double patch_center(std::int64_t index, std::int64_t count) {
  if (count < 1 || index < 0 || index >= count) {
    fail_argument("patch_center", "index must be at least 0 and below count, got ", index, " and ", count);
  }
  return 2 * (static_cast<double>(index) + 0.5) / static_cast<double>(count) - 1;
}

}  // namespace rotary
