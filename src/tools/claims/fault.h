// Wrong operations with names: each stands for a mistake that somebody made, or an idea that sounds right.
#pragma once

#include <memory>
#include <vector>

#include "rotary/claims.hpp"
#include "tools/claims/operations.h"

namespace rotary::claims {

struct Fault {
  ClaimFault described;
  std::unique_ptr<Operations> (*make)();
};

template <class Wrong>
std::unique_ptr<Operations> make() {
  return std::make_unique<Wrong>();
}

std::vector<Fault> rotation_faults();
std::vector<Fault> attention_faults();
std::vector<Fault> linear_faults();

}  // namespace rotary::claims
