// The one way in which rotary says no: a code and one sentence.
//
// The sentence names the operation, the rule that was broken and what was given:
//     rotate: rotary_dim must be even and at most head_dim, got 7 and 64
#pragma once

#include <exception>

#include "rotary/export.hpp"

namespace rotary {

enum class ErrorCode {
  invalid_argument = 1,  ///< a call broke a documented rule
  invalid_file = 2,      ///< a file cannot be read or written, or breaks the rules of its format
  unsupported = 3,       ///< well formed, but outside what this build does
  exhausted = 4,         ///< a pool whose size the caller chose has no room; it may later
};

class ROTARY_API Error : public std::exception {
 public:
  Error(ErrorCode code, const char* sentence);
  Error(const Error& other) noexcept;
  Error& operator=(const Error& other) noexcept;
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }
  const char* what() const noexcept override;

 private:
  struct Sentence;      // counted, so that copying an exception cannot fail
  Sentence* sentence_;  // nullptr where there was no memory for it
  ErrorCode code_;
};

}  // namespace rotary
