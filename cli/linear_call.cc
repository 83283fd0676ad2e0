#include "linear_call.h"

#include <cmath>
#include <iostream>
#include <numbers>
#include <optional>

#include "base/element.h"
#include "command.h"
#include "output.h"
#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"
#include "tensors.h"

namespace rotary::cli {
namespace {

/// Of the authors' code for the generalised attention.
constexpr double performer_relu_epsilon = 1e-3;

/// A pair per channel, at base^(-p / d).
Rotation rotation_per_channel(std::int64_t head_dim, double base) {
  return Rotation({.head_dim = 2 * head_dim,
                   .pairing_in = Pairing::half,
                   .inv_freq = default_frequencies(base, 2 * head_dim).inv_freq});
}

/// Calls body(batch row, token, where the row's first number is) for every row of channels.
template <class Body>
void each_row(const ConstTensorView& x, const Body& body) {
  const char tokens = x.has('T') ? 'T' : 'S';
  for (std::int64_t b = 0; b < x.size('B'); ++b) {
    for (std::int64_t h = 0; h < x.size('H'); ++h) {
      for (std::int64_t s = 0; s < x.size(tokens); ++s) {
        body(b, s, b * x.stride('B') + h * x.stride('H') + s * x.stride(tokens));
      }
    }
  }
}

/// Of the rows that are tokens, if there are any. What holds infinity or NaN is taken for none: of queries no mask says which
/// are.
std::optional<double> mean_squared_length(const ConstTensorView& x, const ConstTensorView& mask) {
  double sum = 0;
  std::int64_t count = 0;
  each_row(x, [&](std::int64_t b, std::int64_t s, std::int64_t at) {
    if (!is_token(mask, b, s)) return;
    double squared_length = 0;
    for (std::int64_t d = 0; d < x.size('D'); ++d) {
      const double number = load_element(x.dtype(), x.data(), at + d * x.stride('D'));
      squared_length += number * number;
    }
    if (!std::isfinite(squared_length)) return;
    ++count;
    sum += squared_length;
  });
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::int64_t num_non_finite_rows(const ConstTensorView& x) {
  std::int64_t count = 0;
  each_row(x, [&](std::int64_t, std::int64_t, std::int64_t at) {
    bool finite = true;
    for (std::int64_t d = 0; d < x.size('D'); ++d) {
      finite = finite && std::isfinite(load_element(x.dtype(), x.data(), at + d * x.stride('D')));
    }
    count += !finite;
  });
  return count;
}

/// Up to which distance no pair has turned by more than a right angle.
double quarter_turn(const Rotation& rotation) { return std::numbers::pi / 2 / rotation.max_abs_inv_freq(); }

/// Whether what a row is divided by is a sum of terms of both signs.
bool divisors_can_vanish(const LinearAttentionOptions& how, const WeightKinds& kinds) {
  if (how.normalizer == Normalizer::rotated) return !kinds.non_negative;
  return how.normalizer == Normalizer::features && how.feature_map.features == Features::identity;
}

/// Whether weights depend on distances alone only as a mean over projections: those of softmax do, which features at random
/// approach.
bool is_relative_on_average(const LinearAttentionOptions& how, const WeightKinds& kinds) {
  return kinds.relative && how.rotation != nullptr && how.feature_map.projection;
}

std::string warning_of(const LinearAttentionOptions& how, const WeightKinds& kinds) {
  std::string text;
  const auto add = [&](const std::string& clause) { text += (text.empty() ? "weights " : ", ") + clause; };
  if (!kinds.non_negative) add("can be negative");
  else if (how.rotate == Rotate::lifted) add("can be negative beyond the distance " + number(quarter_turn(*how.rotation)));
  if (!kinds.sum_to_one) add("need not sum to 1");
  if (!kinds.relative) add("do not depend on distances alone");
  if (is_relative_on_average(how, kinds)) add("depend on distances alone only on average over projections");
  if (divisors_can_vanish(how, kinds)) text += "; what their sum is divided by can come near 0 or below it";
  return text;
}

/// Choromanski et al. 2021, lemma 2: the relative variance of one weight is (e^|q' + k'|^2 - 1) / m. Of queries and keys at
/// right angles, which is typical. "" where there are none.
std::string deviation(const ConstTensorView& q, const ConstTensorView& k, const LinearAttentionOptions& how) {
  const FeatureMap& map = how.feature_map;
  const double scale = map.scale != 0 ? map.scale : 1 / std::sqrt(static_cast<double>(q.size('D')));
  const auto of_queries = mean_squared_length(q, {}), of_keys = mean_squared_length(k, how.key_padding_mask);
  if (!of_queries || !of_keys) return "";
  const double squares = scale * (*of_queries + *of_keys);
  const auto num_features = static_cast<double>(map.projection.size('N'));
  const double percent = 100 * std::sqrt(std::expm1(squares) / num_features);
  const std::string off = percent < 1e6 ? "by about " + number(percent, 2) + " % of itself" : "beyond all use";
  return "one weight is off " + off + ": " + number(num_features, 9) +
         " features, |q'|^2 + |k'|^2 = " + number(squares, 3) + " on average";
}

}  // namespace

LinearCall::LinearCall(const LinearOptions& options, const TensorFile& file, const ConstTensorView& k,
                       const std::optional<Rotation>& rotation, double base)
    : options_(options), method_(*options.method) {
  how_.feature_map.features = method_.takes_map() ? options.map : method_.features;
  how_.rotate = method_.rotate;
  how_.normalizer = method_.normalizer;
  how_.chunk_size = options.chunk_size;
  take_rotation(k, rotation, base);
  take_projection(file, k);
  take_decay(k);
}

void LinearCall::take_rotation(const ConstTensorView& k, const std::optional<Rotation>& rotation, double base) {
  if (method_.turned == Turned::by_rotation) rotation_ = rotation;
  if (method_.turned == Turned::by_cosine) rotation_ = cosformer_rotation(k.size('D'), options_.M);
  if (method_.turned == Turned::by_channel) rotation_ = rotation_per_channel(k.size('D'), base);
  if (rotation_) how_.rotation = &*rotation_;
}

void LinearCall::take_projection(const TensorFile& file, const ConstTensorView& k) {
  if (!method_.takes_projection()) return;
  ConstTensorView& projection = how_.feature_map.projection;
  if (method_.features == Features::favor_relu) how_.feature_map.epsilon = performer_relu_epsilon;
  if (!options_.projection.empty()) {
    const StoredTensor& stored = stored_in(file, options_.projection, projection_file_);
    projection = view_as(stored, options_.projection, "ND");
  } else {
    projection_ = favor_projection(options_.num_features, k.size('D'), options_.seed);
    projection = {projection_.data(), "ND", {options_.num_features, k.size('D')}};
  }
}

void LinearCall::take_decay(const ConstTensorView& k) {
  const std::int64_t heads = k.size('H');
  decay_ = options_.decay;
  if (decay_.size() == 1) decay_.resize(static_cast<std::size_t>(heads), decay_[0]);
  if (decay_.empty() && method_.has_decay()) {
    for (std::int64_t h = 0; h < heads; ++h) decay_.push_back(1 - std::exp2(-5 - static_cast<double>(h)));
  }
  if (!decay_.empty()) how_.decay = {decay_.data(), "H", {static_cast<std::int64_t>(decay_.size())}};
}

void LinearCall::attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const TensorView& out) {
  const LinearAttentionReport report = linear_attention(q, k, v, out, how_);
  const WeightKinds kinds = weight_kinds(how_);
  const std::string start = std::string("rotary: ") + method_.name + ": ";
  if (const std::string warning = warning_of(how_, kinds); !warning.empty()) {
    std::cerr << "rotary: note: " << method_.name << ": " << warning << '\n';
  }
  const std::int64_t num_non_finite = num_non_finite_rows(out);
  if (num_non_finite > 0) {
    std::cerr << "rotary: note: " << method_.name << ": infinity or NaN in " << num_non_finite << " of " << report.num_rows
              << " rows\n";
  }
  if (method_.features == Features::favor_plus) {
    if (const std::string text = deviation(q, k, how_); !text.empty()) std::cerr << start << text << '\n';
  }
  if (options_.json) {
    print_json({{"method", method_.name},
                {"num_features", num_features(how_.feature_map, q.size('D'))},
                {"relative", kinds.relative && !is_relative_on_average(how_, kinds)},
                {"relative_on_average", kinds.relative},
                {"non_negative", kinds.non_negative},
                {"non_negative_within", how_.rotate == Rotate::lifted ? Json(quarter_turn(*how_.rotation)) : Json()},
                {"sum_to_one", kinds.sum_to_one},
                {"num_rows", report.num_rows},
                {"num_zero_rows", report.num_zero_rows},
                {"num_negative_denominators", report.num_negative_denominators},
                {"num_non_finite_denominators", report.num_non_finite_denominators},
                {"num_non_finite_rows", num_non_finite},
                {"worst_condition", report.worst_condition}});
    return;
  }
  std::cerr << start << report.num_rows << " rows, " << report.num_zero_rows << " of them zeros; "
            << report.num_negative_denominators << " negative denominators, worst condition "
            << number(report.worst_condition, 4) << '\n';
}

}  // namespace rotary::cli
