// What an operation writes must not change what it still reads.
#pragma once

#include "base/fail.h"
#include "rotary/tensor.hpp"

namespace rotary {

/// Throws Error (invalid_argument), in the name of `operation`, where the two views share memory. One that is not given
/// shares none.
inline void check_apart(const char* operation, const char* written_name, const ConstTensorView& written,
                        const char* read_name, const ConstTensorView& read) {
  if (read && may_share_memory(written, read)) {
    fail_argument(operation, written_name, " must not overlap ", read_name);
  }
}

}  // namespace rotary
