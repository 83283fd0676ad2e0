// What is odd about a model's files, under ids that stay: RP001, RP002, …
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

enum class Severity : std::uint8_t {
  note,     ///< worth knowing; nothing is wrong
  warning,  ///< legal, and hardly intended; or systems disagree about it
};

ROTARY_API const char* name(Severity severity) noexcept;  ///< "note", "warning"

/// One finding in one file. Lives as long as the ModelRotations it came from.
struct Warning {
  const char* id;  ///< "RP003"
  Severity severity;
  const char* text;  ///< the evidence: keys, values, and what was done about it
};

/// What an id stands for, whatever the file.
struct WarningKind {
  const char* id;
  Severity severity;
  const char* title;    ///< a few words: "factor does not match the lengths"
  const char* meaning;  ///< what it is, and what goes wrong
  const char* advice;   ///< what to do
};

/// All of them, by id.
ROTARY_API const std::vector<WarningKind>& warning_kinds();
/// nullptr for an id that does not exist. Upper or lower case.
ROTARY_API const WarningKind* find_warning_kind(const char* id) noexcept;

}  // namespace rotary
