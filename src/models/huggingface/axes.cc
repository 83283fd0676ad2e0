#include "models/huggingface/axes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/position_axes.hpp"

namespace rotary::huggingface {
namespace {

using Sections = std::vector<std::int64_t>;

// ---- M-RoPE: one set of frequencies, dealt out to several axes ---------------------------------------------------

std::optional<Found<Sections>> sections_in(const ConfigObject& object) {
  for (const char* key : {"mrope_section", "xdrope_section"}) {
    if (auto found = object.whole_numbers(key)) return found;
  }
  return std::nullopt;
}

Found<Sections> read_sections(const Part& part, const RopeAnswer& answer) {
  if (answer.keys) {
    if (auto found = sections_in(*answer.keys)) return *found;
  }
  if (auto found = sections_in(part.config)) return *found;
  Sections otherwise;
  for (const std::int64_t section : part.family.sections) {
    if (section != 0) otherwise.push_back(section);
  }
  return {otherwise, part.class_default("mrope_section " + nlohmann::json(otherwise).dump())};
}

/// Dealt axes: the code gives the first one whatever the sections of the class leave over.
void fill_up(Sections& sections, std::int64_t num_pairs) {
  const std::int64_t sum = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
  if (sum < num_pairs) sections.front() += num_pairs - sum;
}

void check_sections(const Part& part, const Found<Sections>& sections, std::int64_t num_pairs) {
  constexpr std::size_t most = 8;
  if (sections.value.size() > most) {
    fail_file(part.config.path(), "mrope_section must have 1 to ", most, " entries, got ", sections.value.size(), " (",
              sections.source, ")");
  }
  const std::int64_t sum = std::accumulate(sections.value.begin(), sections.value.end(), std::int64_t{0});
  if (sum == num_pairs) return;
  fail_file(part.config.path(), "mrope_section must sum to the pairs that turn, got ",
            nlohmann::json(sections.value).dump(), " = ", sum, " (", sections.source, ") for ", num_pairs, " pairs");
}

bool dealt_by_flag(const Part& part, const RopeAnswer& answer) {
  const auto flag = answer.keys ? answer.keys->boolean("mrope_interleaved") : part.config.boolean("mrope_interleaved");
  return flag && flag->value;
}

std::vector<std::uint8_t> axes_of_sections(const Part& part, const RopeAnswer& answer, const Sections& sections) {
  switch (part.family.axes) {
    case Axes::dealt: return interleaved_axes(sections);
    case Axes::by_flag: return dealt_by_flag(part, answer) ? interleaved_axes(sections) : chunked_axes(sections);
    case Axes::ernie: return ernie_axes(sections);
    default: return chunked_axes(sections);
  }
}

// ---- towers: each axis with frequencies of its own ------------------------------------------------------------------

/// Patches along one side of the picture that the class was made for; DINOv3's coordinates run from -1 to 1 over them.
std::int64_t patches_per_side(const Part& part, Provenance& provenance) {
  const auto size = [&](const char* key, std::int64_t otherwise) {
    const auto given = part.config.count(key);
    return given ? *given : Found<std::int64_t>{otherwise, part.class_default(sentence(key, " ", otherwise))};
  };
  const Found<std::int64_t> image = size("image_size", part.family.defaults.image);
  const Found<std::int64_t> patch = size("patch_size", part.family.defaults.patch);
  if (patch.value == 0 || image.value < patch.value) {
    fail_file(part.config.path(), "image_size must be at least patch_size, got ", image.value, " (", image.source, ") and ",
              patch.value, " (", patch.source, ")");
  }
  const std::int64_t patches = image.value / patch.value;
  provenance.add("patches_per_side", patches, image.source + " / patch_size");
  return patches;
}

/// Positions are integers here: the centre of patch i of n stands at 2 i + 1 - n, in units of 1 / n of the coordinate.
Frequencies dinov3_in_patches(const Part& part, std::int64_t head_dim, double base, Provenance& provenance) {
  DinoV3 rule{.base = base};
  const auto least = part.config.positive_number("rope_min_period"), most = part.config.positive_number("rope_max_period");
  if (least && most) {
    rule.min_period = least->value;
    rule.max_period = most->value;
    provenance.add("min_period", *least);
    provenance.add("max_period", *most);
  }
  Frequencies frequencies = dinov3_frequencies(head_dim, rule);
  const auto patches = static_cast<double>(patches_per_side(part, provenance));
  for (double& inv_freq : frequencies.inv_freq) inv_freq /= patches;
  return frequencies;
}

/// Layers that see the whole picture count its patches so that it is one window wide.
Frequencies in_windows(const Part& part, Frequencies frequencies, Provenance& provenance) {
  const auto window = part.config.count("window_size");
  const Found<std::int64_t> size =
      window ? *window : Found<std::int64_t>{part.family.defaults.window, part.class_default("window_size")};
  const double step = static_cast<double>(size.value) / static_cast<double>(patches_per_side(part, provenance));
  for (double& inv_freq : frequencies.inv_freq) inv_freq *= step;
  provenance.add("position_step", step, size.source + " / patches_per_side");
  return frequencies;
}

/// What the axes of a tower count, in the order of position_ids.
std::vector<const char*> axis_names(Axes axes) {
  switch (axes) {
    case Axes::vision_xy:
    case Axes::sam3:
    case Axes::halves: return {"x", "y"};
    case Axes::dinov3: return {"y", "x"};
    case Axes::thirds: return {"time", "row", "column"};
    default: return {"row", "column"};
  }
}

void read_tower(const Part& part, const std::string& sort, std::int64_t head_dim, RopeAnswer& answer, RotationSpec& layout,
                Provenance& provenance) {
  const std::int64_t half = head_dim / 2, quarter = head_dim / 4;
  if (answer.rule_name != "default") {
    fail_unsupported(part.config.path(), "rope_type must be default or axial for ", part.family.model_type, ", got \"",
                     answer.rule_name, "\"");
  }
  if (head_dim % 4 != 0 && part.family.axes != Axes::thirds) {
    fail_file(part.config.path(), "head_dim must be a multiple of 4 for two axes, got ", head_dim);
  }
  switch (part.family.axes) {
    case Axes::vision_columns:
      answer.rule = axial_frequencies(answer.base, {half, half});
      layout.axis = chunked_axes({quarter, quarter});
      for (std::uint8_t& axis : layout.axis) axis = static_cast<std::uint8_t>(1 - axis);
      break;
    case Axes::pixtral:
      answer.rule = pixtral_frequencies(answer.base, head_dim);
      layout.axis = chunked_axes({quarter, quarter});
      break;
    case Axes::moonvit:
      answer.rule = moonvit_frequencies(answer.base, head_dim);
      layout.axis = alternating_axes(2, half);
      for (std::uint8_t& axis : layout.axis) axis = static_cast<std::uint8_t>(1 - axis);
      break;
    case Axes::dinov3:
      answer.rule = dinov3_in_patches(part, head_dim, answer.base, provenance);
      layout.axis = chunked_axes({quarter, quarter});
      break;
    case Axes::halves:
      answer.rule = axial_frequencies(answer.base, {half, half});
      layout.axis = chunked_axes({quarter, quarter});
      layout.pairing_in = layout.pairing_out = Pairing::listed;
      layout.pairs_in = layout.pairs_out = block_half_pairs({half, half});
      break;
    case Axes::thirds: {
      const std::int64_t third = 2 * (2 * half / 3 / 2);
      answer.rule = axial_frequencies(answer.base, {third, third, third});
      layout.axis = chunked_axes({third / 2, third / 2, third / 2});
      layout.rotary_dim = 3 * third;
      break;
    }
    default: {
      Frequencies frequencies = axial_frequencies(answer.base, {half, half});
      const bool scaled = part.family.axes == Axes::sam3 && sort == "global";
      answer.rule = scaled ? in_windows(part, std::move(frequencies), provenance) : std::move(frequencies);
      layout.axis = chunked_axes({quarter, quarter});
    }
  }
  answer.rule_name = "axial";
  provenance.add("axes", axis_names(part.family.axes), part.code("each axis drives its own channels"));
}

}  // namespace

void read_axes(const Part& part, const std::string& sort, std::int64_t head_dim, RopeAnswer& answer, RotationSpec& layout,
               Provenance& provenance) {
  if (part.family.axes == Axes::one) return;
  if (part.family.axes == Axes::alternating) {
    layout.axis = alternating_axes(2, answer.rotary_dim / 2);
    return provenance.add("axes", 2, part.code("pairs follow rows and columns in turn"));
  }
  if (part.family.axes >= Axes::vision_rows) return read_tower(part, sort, head_dim, answer, layout, provenance);
  const bool from_file = (answer.keys && sections_in(*answer.keys)) || sections_in(part.config);
  Found<Sections> sections = read_sections(part, answer);
  if (sections.value.empty()) return;  // text only: all axes would be equal
  const std::int64_t num_pairs = answer.rotary_dim / 2;
  if (part.family.axes == Axes::dealt && !from_file) fill_up(sections.value, num_pairs);
  check_sections(part, sections, num_pairs);
  layout.axis = axes_of_sections(part, answer, sections.value);
  provenance.add("mrope_section", sections);
}

}  // namespace rotary::huggingface
