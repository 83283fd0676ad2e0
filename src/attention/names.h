// What errors call an operation on q and k.
#pragma once

namespace rotary {

struct AttentionNames {
  const char *operation, *q_positions, *k_positions;
};

}  // namespace rotary
