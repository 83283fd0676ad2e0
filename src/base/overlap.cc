// Whether views share memory: a bounded search for an index (or two) that reach the same bit.
//
// Both questions are the same one: is there a whole number x_k in 0 … limit_k for every step, so that sum step_k * x_k lies
// between two bounds? Steps are taken in descending order; what the remaining steps can reach at most, and their greatest
// common divisor, cut the search to a few nodes for the strides that real tensors have.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/apart.h"
#include "base/fail.h"
#include "rotary/tensor.hpp"

namespace rotary {
namespace {

__extension__ typedef __int128 Wide;  // sums of products of representable offsets

struct Step {
  Wide step;  // positive
  Wide limit;
};

class Search {
 public:
  explicit Search(std::vector<Step> steps) : steps_(std::move(steps)) {
    std::erase_if(steps_, [](const Step& s) { return s.step == 0 || s.limit == 0; });
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.step > b.step; });
    reach_.assign(steps_.size() + 1, 0);
    divisor_.assign(steps_.size() + 1, 0);
    for (std::size_t i = steps_.size(); i-- > 0;) {
      reach_[i] = reach_[i + 1] + steps_[i].step * steps_[i].limit;
      divisor_[i] = gcd(divisor_[i + 1], steps_[i].step);
    }
  }

  /// Whether a sum lies in least … most.
  bool finds(Wide least, Wide most) { return finds(0, least, most); }

 private:
  static Wide gcd(Wide a, Wide b) {
    while (b != 0) {
      const Wide rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }

  /// The largest multiple of `unit` that is at most x, for x >= 0.
  static Wide multiple_below(Wide x, Wide unit) { return x - x % unit; }

  bool finds(std::size_t i, Wide least, Wide most) {
    if (least <= 0 && most >= 0) return true;
    if (most < 0 || least > reach_[i] || multiple_below(most, divisor_[i]) < least) return false;
    if (--nodes_left_ < 0) return true;  // too hard to decide: the careful answer
    const Step& s = steps_[i];
    const Wide needed = least - reach_[i + 1];
    const Wide first = needed > 0 ? (needed + s.step - 1) / s.step : 0;
    for (Wide x = std::min(s.limit, most / s.step); x >= first; --x) {
      if (finds(i + 1, least - x * s.step, most - x * s.step)) return true;
    }
    return false;
  }

  std::vector<Step> steps_;
  std::vector<Wide> reach_;    // the largest sum of the steps from i on
  std::vector<Wide> divisor_;  // their greatest common divisor
  int nodes_left_ = 100000;
};

Wide magnitude(Wide x) { return x < 0 ? -x : x; }

// The tensors that an engine hands in nearly always pass strides_nest(), and lie in memory_range()s apart: without a search or
// an allocation. There 64 bits suffice: a view's constructor has checked every offset.

/// Whether every stride steps over all that the smaller ones reach.
bool strides_nest(const ConstTensorView& view) {
  struct {
    std::uint64_t step, reach;
  } axes[max_rank];
  int count = 0;
  for (int i = view.rank() - 1; i >= 0; --i) {  // in memory's own order, nearly always: there is nothing to sort
    const std::int64_t length = view.shape()[i], stride = view.strides()[i];
    if (length < 2) continue;
    const std::uint64_t step = stride < 0 ? -static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
    int at = count++;
    for (; at > 0 && axes[at - 1].step > step; --at) axes[at] = axes[at - 1];
    axes[at] = {step, step * static_cast<std::uint64_t>(length - 1)};
  }
  std::uint64_t reach = 0;
  for (int i = 0; i < count; ++i) {
    if (axes[i].step <= reach) return false;
    reach += axes[i].reach;
  }
  return true;
}

}  // namespace

MemoryRange memory_range(const ConstTensorView& view) noexcept {
  std::int64_t lowest = 0, highest = 0;
  for (int i = 0; i < view.rank(); ++i) {
    const std::int64_t length = view.shape()[i], reach = view.strides()[i] * (length - 1);
    if (length == 0) return {};
    lowest += std::min<std::int64_t>(reach, 0);
    highest += std::max<std::int64_t>(reach, 0);
  }
  const std::int64_t bits = bit_size(view.dtype()), first = lowest * bits, last = highest * bits;
  const auto at = reinterpret_cast<std::uintptr_t>(view.data());
  return {at + static_cast<std::uintptr_t>(first >> 3),
          at + static_cast<std::uintptr_t>((last >> 3) + (((last & 7) + bits + 7) >> 3))};
}

// Part by part: a copy of a whole view, just written, would wait for its parts to be in memory.
void NamedViews::add_given(const char* name, const ConstTensorView& view) noexcept {
  NamedView& added = next();
  added.name = name;
  added.view = &view;
  added.range = memory_range(view);
}

void check_elements_apart(const char* operation, const NamedView& written, const NamedView& read) {
  if (may_share_memory(*written.view, *read.view)) fail_argument(operation, written.name, " must not overlap ", read.name);
}

bool overlaps_itself(const ConstTensorView& view) {
  if (strides_nest(view) || view.num_elements() < 2) return false;
  // Differences of two indices range over -(n-1) … n-1 along every axis. Some axis must differ: try each as the first that
  // does.
  std::vector<Step> others;
  for (int i = 0; i < view.rank(); ++i) {
    const Wide limit = view.shape()[i] - 1;
    const Wide step = magnitude(view.strides()[i]);
    if (limit == 0) continue;
    if (step == 0) return true;
    // step * d + sum of the earlier axes = 0 with d in 1 … limit; shift the earlier ones from -l … l to 0 … 2l.
    std::vector<Step> steps = others;
    Wide shifted = 0;
    for (Step& s : steps) {
      shifted += s.step * s.limit;
      s.limit *= 2;
    }
    // d = 1 + d', so that step * d' + sum of the shifted earlier axes must equal `shifted` - step.
    steps.push_back({step, limit - 1});
    if (shifted - step >= 0 && Search(std::move(steps)).finds(shifted - step, shifted - step)) return true;
    others.push_back({step, limit});
  }
  return false;
}

bool may_share_memory(const ConstTensorView& a, const ConstTensorView& b) {
  const MemoryRange in_a = memory_range(a), in_b = memory_range(b);
  if (in_a.end <= in_b.begin || in_b.end <= in_a.begin || a.num_elements() == 0 || b.num_elements() == 0) return false;
  // Bits: address_a + sum step * i + bit = address_b + sum step * j + bit'. Every range is shifted to start at 0; the bits
  // within the two elements are what the sum of the steps may be off by.
  std::vector<Step> steps;
  Wide target = 8 * (static_cast<Wide>(reinterpret_cast<std::uintptr_t>(b.data())) -
                     static_cast<Wide>(reinterpret_cast<std::uintptr_t>(a.data())));
  const auto add = [&](const ConstTensorView& view, bool on_the_left) {
    const std::int64_t bits = bit_size(view.dtype());
    for (int i = 0; i < view.rank(); ++i) {
      const Wide step = static_cast<Wide>(view.strides()[i]) * bits;
      const Wide limit = view.shape()[i] - 1;
      const Wide signed_step = on_the_left ? step : -step;
      if (signed_step < 0) target -= signed_step * limit;
      steps.push_back({magnitude(step), limit});
    }
  };
  add(a, true);
  add(b, false);
  return Search(std::move(steps)).finds(target - (bit_size(a.dtype()) - 1), target + (bit_size(b.dtype()) - 1));
}

}  // namespace rotary
