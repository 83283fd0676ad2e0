#include "attention/added_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/bias_values.h"
#include "attention/tensor_rows.h"

namespace rotary {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::int64_t broadcast_stride(const ConstTensorView& mask, char axis) noexcept {
  return mask.size(axis) > 1 ? mask.stride(axis) : 0;
}

}  // namespace

bool may_add_to_scores(const AttentionProblem& p) noexcept {
  const AttentionOptions& o = p.options;
  return o.attn_mask || o.bias != nullptr || o.bias_function || o.key_padding_mask || o.k_document_ids || p.k_positions;
}

AddedScores::AddedScores(const AttentionProblem& problem) noexcept
    : p_(problem),
      visible_(problem),
      mask_(problem.options.attn_mask),
      bias_(problem.options.bias),
      function_(problem.options.bias_function),
      adds_(mask_ || bias_ != nullptr || function_),
      may_add_(may_add_to_scores(problem)),
      row_step_(broadcast_stride(mask_, 'B')),
      head_step_(broadcast_stride(mask_, 'H')),
      query_step_(broadcast_stride(mask_, 'Q')),
      key_step_(broadcast_stride(mask_, 'K')) {}

void AddedScores::load_positions(const AttentionSequence& s, std::int64_t first_key, std::int64_t num_keys,
                                 double* positions) const noexcept {
  if (bias_ == nullptr && !function_) return;
  for (std::int64_t i = 0; i < num_keys; ++i) p_.k_positions->read(s.row, s.first_key + first_key + i, positions + i);
}

void AddedScores::row(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key,
                      std::int64_t num_keys, const double* k_positions, double* line) const {
  if (mask_) load_mask(s, query, head, first_key, num_keys, line);
  else std::fill_n(line, num_keys, 0.0);
  if (bias_ != nullptr || function_) {
    double q_position = 0;
    p_.q_positions->read(s.row, s.first_query + query, &q_position);
    if (bias_ != nullptr) add_bias(q_position, head, num_keys, k_positions, line);
    if (function_) add_function(q_position, head, num_keys, k_positions, line);
  }
  if (!s.is_scattered()) return;
  for (std::int64_t i = 0; i < num_keys; ++i) {
    if (!visible_.shows(s, query, first_key + i)) line[i] = minus_infinity;
  }
}

void AddedScores::add_bias(double q_position, std::int64_t head, std::int64_t num_keys, const double* k_positions,
                           double* line) const {
  const BiasValues values{*bias_};
  if (bias_->kind() == BiasKind::alibi) {
    const double slope = values.slope(head);
    for (std::int64_t i = 0; i < num_keys; ++i) line[i] -= slope * std::abs(k_positions[i] - q_position);
    return;
  }
  for (std::int64_t i = 0; i < num_keys; ++i) {
    line[i] += values.entry(head, values.row(static_cast<std::int64_t>(k_positions[i] - q_position)));
  }
}

void AddedScores::add_function(double q_position, std::int64_t head, std::int64_t num_keys, const double* k_positions,
                               double* line) const {
  for (std::int64_t i = 0; i < num_keys; ++i) {
    if (line[i] == minus_infinity) continue;  // hidden already, whatever the function says
    line[i] += function_.function(function_.context, head, q_position, k_positions[i]);
  }
}

void AddedScores::load_mask(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key,
                            std::int64_t num_keys, double* line) const noexcept {
  const std::int64_t first =
      s.row * row_step_ + head * head_step_ + (s.first_query + query) * query_step_ + (s.first_key + first_key) * key_step_;
  if (mask_.dtype() != DType::boolean) return load_row(mask_.dtype(), mask_.data(), first, key_step_, num_keys, line);
  const bool* const seen = static_cast<const bool*>(mask_.data()) + first;
  for (std::int64_t i = 0; i < num_keys; ++i) line[i] = seen[i * key_step_] ? 0 : minus_infinity;
}

}  // namespace rotary
