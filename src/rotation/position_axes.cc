#include "rotary/position_axes.hpp"

#include "base/fail.h"
#include "rotary/frequencies.hpp"

namespace rotary {
namespace {

using AxisMap = std::vector<std::uint8_t>;
using Sections = std::vector<std::int64_t>;

constexpr std::int64_t max_pairs = max_rotary_dim / 2;

/// Checks the sections and returns their sum.
std::int64_t count_pairs(const char* operation, const Sections& sections) {
  if (sections.empty() || sections.size() > static_cast<std::size_t>(max_position_axes)) {
    fail_argument(operation, "there must be 1 to ", max_position_axes, " sections, got ", sections.size());
  }
  std::int64_t sum = 0;
  for (const std::int64_t section : sections) {
    if (section < 0 || section > max_pairs) {
      fail_argument(operation, "sections must be at least 0 and at most ", max_pairs, ", got ", section);
    }
    sum += section;
  }
  if (sum == 0) fail_argument(operation, "sections must add up to at least one pair");
  return sum;
}

std::int64_t count_pairs(const char* operation, const Sections& sections, std::size_t num_sections) {
  if (sections.size() != num_sections) {
    fail_argument(operation, "there must be ", num_sections, " sections, got ", sections.size());
  }
  return count_pairs(operation, sections);
}

}  // namespace

AxisMap chunked_axes(const Sections& sections) {
  AxisMap axis;
  axis.reserve(static_cast<std::size_t>(count_pairs("chunked_axes", sections)));
  for (std::size_t a = 0; a < sections.size(); ++a) {
    axis.insert(axis.end(), static_cast<std::size_t>(sections[a]), static_cast<std::uint8_t>(a));
  }
  return axis;
}

AxisMap interleaved_axes(const Sections& sections) {
  const std::int64_t num_pairs = count_pairs("interleaved_axes", sections, 3);
  AxisMap axis;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    const auto turn = static_cast<std::uint8_t>(j % 3);
    axis.push_back(j < 3 * sections[turn] ? turn : 0);
  }
  return axis;
}

AxisMap ggml_interleaved_axes(const Sections& sections) {
  const std::int64_t num_pairs = count_pairs("ggml_interleaved_axes", sections, 4);
  AxisMap axis;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    const auto turn = static_cast<std::uint8_t>(j % 3);
    axis.push_back(j < 3 * sections[turn] ? turn : 3);
  }
  return axis;
}

AxisMap ernie_axes(const Sections& sections) {
  constexpr const char* operation = "ernie_axes";
  const std::int64_t num_pairs = count_pairs(operation, sections, 3);
  if (sections[0] != sections[1]) {
    fail_argument(operation, "the sections of height and width must be equal, got ", sections[0], " and ", sections[1]);
  }
  constexpr std::uint8_t time = 0, height = 1, width = 2;
  AxisMap axis;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    if (j >= sections[0] + sections[1]) axis.push_back(time);
    else axis.push_back(j % 2 == 0 ? height : width);
  }
  return axis;
}

AxisMap pangu_axes(const Sections& sections) {
  constexpr const char* operation = "pangu_axes";
  const std::int64_t num_pairs = count_pairs(operation, sections);
  if (sections.size() != 2 && sections.size() != 3) {
    fail_argument(operation, "there must be 2 or 3 sections, got ", sections.size());
  }
  const bool first_ends = sections.size() == 3;
  if (first_ends && sections[0] == 0) fail_argument(operation, "the first section must be at least 1, it ends the list");
  Sections share = sections;
  if (first_ends) --share[0];

  Sections dealt(share.size(), 0);
  AxisMap axis;
  const auto is_open = [&](std::size_t a) { return dealt[a] < share[a]; };
  const auto has_less = [&](std::size_t a, std::size_t b) { return dealt[a] * share[b] < dealt[b] * share[a]; };
  while (static_cast<std::int64_t>(axis.size()) < num_pairs - (first_ends ? 1 : 0)) {
    std::size_t best = share.size();
    for (std::size_t a = 0; a < share.size(); ++a) {
      const bool repeats = !axis.empty() && axis.back() == a;
      if (is_open(a) && !repeats && (best == share.size() || has_less(a, best))) best = a;
    }
    if (best == share.size()) best = axis.back();  // nothing else is left
    ++dealt[best];
    axis.push_back(static_cast<std::uint8_t>(best));
  }
  if (first_ends) axis.push_back(0);
  return axis;
}

AxisMap alternating_axes(std::int64_t num_axes, std::int64_t num_pairs) {
  constexpr const char* operation = "alternating_axes";
  if (num_axes < 1 || num_axes > max_position_axes) {
    fail_argument(operation, "num_axes must be 1 to ", max_position_axes, ", got ", num_axes);
  }
  if (num_pairs < 1 || num_pairs > max_pairs) {
    fail_argument(operation, "num_pairs must be 1 to ", max_pairs, ", got ", num_pairs);
  }
  AxisMap axis;
  for (std::int64_t j = 0; j < num_pairs; ++j) axis.push_back(static_cast<std::uint8_t>(j % num_axes));
  return axis;
}

std::vector<Pair> block_half_pairs(const std::vector<std::int64_t>& block_dims) {
  constexpr const char* operation = "block_half_pairs";
  std::vector<Pair> pairs;
  std::int64_t begin = 0;
  for (const std::int64_t dim : block_dims) {
    if (dim < 2 || dim % 2 != 0 || dim > max_rotary_dim - begin) {
      fail_argument(operation, "block_dims must be even, at least 2 and at most ", max_rotary_dim, " together, got ", dim);
    }
    for (std::int64_t j = 0; j < dim / 2; ++j) pairs.push_back({begin + j, begin + j + dim / 2});
    begin += dim;
  }
  return pairs;
}

}  // namespace rotary
