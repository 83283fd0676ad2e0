#include "attention/score_checks.h"

#include <cmath>
#include <limits>

#include "attention/tensor_checks.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/position_bias.hpp"

namespace rotary {
namespace {

class ScoreChecks {
 public:
  ScoreChecks(const char* operation, const AttentionProblem& problem)
      : operation_(operation), checks_{operation}, p_(problem), options_(problem.options) {}

  void check() const {
    if (options_.temperatures) check_temperatures();
    const double cap = options_.softcap;
    if (cap != 0 && !(cap >= 1e-30 && cap <= 1e30)) {
      fail_argument(operation_, "softcap must be 0 for none, or 1e-30 to 1e30, got ", cap);
    }
    if (options_.bias != nullptr) check_bias(*options_.bias);
    if (options_.sinks) check_sinks();
  }

 private:
  void check_temperatures() const {
    constexpr const char* what = "temperatures";
    const ConstTensorView& factors = options_.temperatures;
    checks_.given(factors, what);
    checks_.per_token(factors, what, p_.token_axis, p_.num_queries, "query", p_.q.size('B'));
    for (std::int64_t b = 0; b < factors.size('B'); ++b) {
      for (std::int64_t s = 0; s < p_.num_queries; ++s) {
        const double factor =
            load_element(factors.dtype(), factors.data(), b * factors.stride('B') + s * factors.stride(p_.token_axis));
        if (!std::isfinite(factor)) fail_argument(operation_, what, " must be finite, got ", factor);
      }
    }
  }

  void check_bias(const PositionBias& bias) const {
    if (bias.num_heads() != p_.num_q_heads) {
      fail_argument(operation_, "bias must have as many heads as q, got ", bias.num_heads(), " and ", p_.num_q_heads);
    }
    if (bias.kind() == BiasKind::alibi) return;
    check_whole(*p_.q_positions, p_.num_queries);
    check_whole(*p_.k_positions, p_.num_keys);
  }

  void check_whole(const TokenPositions& positions, std::int64_t num_tokens) const {
    if (positions.is_counted()) return;
    for (std::int64_t b = 0; b < p_.q.size('B'); ++b) {
      for (std::int64_t s = 0; s < num_tokens; ++s) {
        double position = 0;
        positions.read(b, s, &position);
        if (position == std::nearbyint(position)) continue;
        fail_argument(operation_, "positions must be whole numbers, to find a distance in the table of the bias, got ",
                      position);
      }
    }
  }

  void check_sinks() const {
    const ConstTensorView& sinks = options_.sinks;
    checks_.given(sinks, "sinks");
    if (sinks.rank() != 1 || !sinks.has('H')) {
      fail_argument(operation_, "sinks must have the axis H alone, got \"", sinks.axes().c_str(), "\"");
    }
    checks_.size('H', sinks, "sinks", p_.num_q_heads, "q");
    for (std::int64_t h = 0; h < p_.num_q_heads; ++h) {
      const double sink = load_element(sinks.dtype(), sinks.data(), h * sinks.stride('H'));
      if (std::isfinite(sink) || sink == -std::numeric_limits<double>::infinity()) continue;
      fail_argument(operation_, "sinks must be finite or -infinity, got ", sink);
    }
  }

  const char* operation_;
  TensorChecks checks_;
  const AttentionProblem& p_;
  const AttentionOptions& options_;
};

}  // namespace

void check_score_options(const char* operation, const AttentionProblem& problem) {
  ScoreChecks(operation, problem).check();
}

}  // namespace rotary
