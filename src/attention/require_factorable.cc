#include <numeric>

#include "attention/bias_values.h"
#include "base/fail.h"

namespace rotary {
namespace {

constexpr const char* operation = "require_factorable";
constexpr const char* why =
    "linear attention adds up its keys before it meets a query, so that exp(bias) must be a sum of a "
    "fixed number of products f(i) g(j); use attention()";

/// The distances from a query at which a table can change.
std::vector<std::int64_t> steps(const BiasValues& values) {
  if (values.bias.kind() == BiasKind::t5) return values.buckets().first_distances();
  std::vector<std::int64_t> all(static_cast<std::size_t>(values.reach() + 1));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double value(const BiasValues& values, std::int64_t head, std::int64_t distance) {
  return values.entry(head, values.row(distance));
}

/// Causal: the distance from which on the bias of a head is constant.
std::int64_t last_step(const BiasValues& values, std::int64_t head) {
  std::int64_t last = 0;
  for (const std::int64_t step : steps(values)) {
    if (step > 0 && value(values, head, -step) != value(values, head, 1 - step)) last = step;
  }
  return last;
}

bool is_constant(const BiasValues& values, std::int64_t head) {
  if (values.bias.kind() == BiasKind::alibi) return values.slope(head) == 0;
  for (std::int64_t step : steps(values)) {
    if (step == 0) step = 1;  // a key just after its query has a row that one at its place does not have
    for (const std::int64_t distance : {-step, step}) {
      if (value(values, head, distance) != value(values, head, 0)) return false;
    }
  }
  return true;
}

}  // namespace

void require_factorable(const PositionBias& bias, Causal causal) {
  const BiasValues values{bias};
  for (std::int64_t h = 0; h < bias.num_heads(); ++h) {
    if (causal == Causal::none && !is_constant(values, h)) {
      fail_unsupported(operation, "a bias of i - j on both sides cannot be pre-summed: with N tokens exp(bias) of head ", h,
                       " (", name(bias.kind()), ") takes a number of products f(i) g(j) that grows with N. Reason: ", why);
    }
    if (causal == Causal::none || bias.kind() == BiasKind::alibi) continue;  // causal ALiBi: a decay, one product
    if (const std::int64_t last = last_step(values, h); last > 0) {
      fail_unsupported(operation, "a table of i - j cannot be pre-summed: the bias of head ", h, " (", name(bias.kind()),
                       ") still changes at distance ", last, ", so that exp(bias) takes at least ", last + 1,
                       " products f(i) g(j), each with a state of its own. Reason: ", why);
    }
  }
}

}  // namespace rotary
