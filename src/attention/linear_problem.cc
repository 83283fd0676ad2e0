#include "attention/linear_problem.h"

#include <cmath>
#include <string>
#include <string_view>

#include "attention/feature_map.h"
#include "attention/linear_state.h"
#include "attention/tensor_checks.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr std::int64_t max_chunk_size = 1024;

template <class View>
View renamed(const View& view) {
  if (!view.has('T')) return view;
  std::string letters = view.axes().c_str();
  letters[static_cast<std::size_t>(view.axes().find('T'))] = 'S';
  return View(view.data(), view.dtype(), Axes(letters.c_str()), view.shape(), view.strides());
}

std::int64_t entry(const ConstTensorView& list, std::int64_t i) noexcept {
  return whole_number(list, i * list.stride('N'));
}

bool are_the_same(const ConstTensorView& a, const ConstTensorView& b) noexcept {
  if (!a || !b) return !a && !b;
  return a.data() == b.data() && a.dtype() == b.dtype() && std::string_view(a.axes().c_str()) == b.axes().c_str() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

bool are_the_same(const Positions& a, const Positions& b) noexcept {
  return a.offset == b.offset && are_the_same(a.offsets, b.offsets) && are_the_same(a.position_ids, b.position_ids) &&
         are_the_same(a.cu_seqlens, b.cu_seqlens);
}

class Checked {
 public:
  Checked(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
          const LinearAttentionOptions& options)
      : names_(names), operation_(names.operation), checks_{names.operation}, q_(q), k_(k), v_(v), options_(options) {}

  LinearProblem problem() {
    active_isa();  // here, where it may throw: kernels may not
    check_tensors();
    LinearProblem p(q_, k_, v_, options_);
    p.heads_per_kv_head = checks_.heads(p.num_q_heads, p.num_kv_heads);
    if (p.chunk_size < 1 || p.chunk_size > max_chunk_size) {
      fail_argument(operation_, "chunk_size must be 1 to ", max_chunk_size, ", got ", p.chunk_size);
    }
    count_sequences(p);
    check_features(p);
    resolve_rotation(p);
    resolve_widths(p);
    check_padding(p);
    resolve_decay(p);
    return p;
  }

 private:
  void check_tensor(const ConstTensorView& view, const char* what) const {
    checks_.given(view, what);
    checks_.axes_of_rows(view, what, packed() ? 'T' : 'S');
    checks_.width(view, what);
  }

  bool packed() const { return static_cast<bool>(options_.cu_seqlens); }

  void check_tensors() const {
    if (!packed() && q_.has('T')) fail_argument(operation_, "packed tokens (axis T) need cu_seqlens");
    check_tensor(q_, "q");
    check_tensor(k_, "k");
    check_tensor(v_, "v");
    const char tokens = packed() ? 'T' : 'S';
    checks_.size('B', k_, "k", q_.size('B'), "q");
    checks_.size('B', v_, "v", q_.size('B'), "q");
    checks_.size('D', k_, "k", q_.size('D'), "q");
    checks_.size(tokens, v_, "v", k_.size(tokens), "k");
    checks_.size('H', v_, "v", k_.size('H'), "k");
    if ((options_.is_causal || packed()) && k_.size(tokens) != q_.size(tokens)) {
      fail_argument(operation_, options_.is_causal ? "is_causal" : "cu_seqlens", " needs as many queries as keys, got ",
                    q_.size(tokens), " and ", k_.size(tokens));
    }
  }

  void count_sequences(LinearProblem& p) const {
    if (!packed()) {
      p.num_sequences = q_.size('B');
      return;
    }
    const ConstTensorView& ends = options_.cu_seqlens;
    if ((ends.dtype() != DType::i32 && ends.dtype() != DType::i64) || ends.rank() != 1 || !ends.has('N')) {
      fail_argument(operation_, "cu_seqlens must be int32 or int64 with the axis N, got ", name(ends.dtype()), " and \"",
                    ends.axes().c_str(), "\"");
    }
    const std::int64_t count = ends.size('N');
    if (count < 1 || entry(ends, 0) != 0 || entry(ends, count - 1) != q_.size('T')) {
      fail_argument(operation_, "cu_seqlens must start at 0 and end at the number of tokens, ", q_.size('T'));
    }
    for (std::int64_t i = 1; i < count; ++i) {
      const std::int64_t begin = entry(ends, i - 1), length = entry(ends, i) - begin;
      if (length < 0) fail_argument(operation_, "cu_seqlens must never fall, got ", begin, " before ", begin + length);
    }
    p.num_sequences = count - 1;
  }

  void check_features(LinearProblem& p) const {
    check_feature_map(operation_, p.feature_map, p.head_dim);
    p.num_features = num_features(p.feature_map, p.head_dim);
    if (p.feature_map.features == Features::favor_plus && p.normalizer == Normalizer::none) {
      fail_argument(operation_, "favor_plus needs a normalizer: its features are known up to a factor");
    }
  }

  void resolve_rotation(LinearProblem& p) const {
    if (p.rotation == nullptr) {
      if (says_something(options_.q_positions) || says_something(options_.k_positions)) {
        fail_argument(operation_, "q_positions and k_positions need a rotation");
      }
      return;
    }
    const Rotation& rotation = *p.rotation;
    const std::int64_t expected = p.rotate == Rotate::before_map  ? p.head_dim
                                  : p.rotate == Rotate::after_map ? p.num_features
                                                                  : 2 * p.num_features;
    if (rotation.head_dim() != expected) {
      fail_argument(operation_, "the rotation's head_dim must be ",
                    p.rotate == Rotate::before_map  ? "the width of q and k"
                    : p.rotate == Rotate::after_map ? "the number of features"
                                                    : "twice the number of features",
                    ", got ", rotation.head_dim(), " and ", expected);
    }
    if (p.rotate == Rotate::lifted && rotation.num_pairs() != p.num_features) {
      fail_argument(operation_, "a rotation of lifted features must turn every channel, got ", rotation.num_pairs(),
                    " pairs for ", p.num_features, " features");
    }
    const auto angles = [&](std::optional<TokenAngles>& to, const char* what, const Positions& given,
                            const Tokens& tokens) {
      to.emplace(what, rotation, PositionsWithin(options_.cu_seqlens, given).positions(), tokens, RotateOptions{});
    };
    angles(p.q_angles, names_.q_positions, options_.q_positions, tokens_of(operation_, q_));
    p.same_positions = p.q.size('S') == p.k.size('S') && are_the_same(options_.q_positions, options_.k_positions);
    if (!p.same_positions) angles(p.other_k_angles, names_.k_positions, options_.k_positions, tokens_of(operation_, k_));
  }

  static void resolve_widths(LinearProblem& p) {
    const bool lifted = p.rotation != nullptr && p.rotate == Rotate::lifted;
    p.a_width = (lifted ? 2 : 1) * p.num_features;
    std::int64_t lengths = p.num_features;  // a pair that turns has one, as has a channel that does not
    if (p.turns_features() && !lifted) lengths -= p.rotation->num_pairs();
    p.m_width = !p.may_cancel() ? 0 : p.bounds_by_norm() ? 3 : lengths;
    switch (p.normalizer) {
      case Normalizer::none: p.c_width = 0; break;
      case Normalizer::features: p.c_width = p.num_features; break;
      case Normalizer::rotated: p.c_width = p.a_width; break;
      case Normalizer::pair_norms: p.c_width = lengths; break;
    }
  }

  void check_padding(const LinearProblem& p) const {
    const ConstTensorView& mask = options_.key_padding_mask;
    if (!mask) return;
    if (mask.dtype() != DType::boolean) {
      fail_argument(operation_, "key_padding_mask must be boolean, true for a token, got ", name(mask.dtype()));
    }
    const char* const letters = packed() ? "T" : "BS";
    for (int i = 0; i < mask.rank(); ++i) {
      if (Axes(letters).find(mask.axes()[i]) >= 0) continue;
      fail_argument(operation_, "key_padding_mask must have axes among ", letters, ", got \"", mask.axes().c_str(),
                    "\": keys are summed before any query comes, so that no mask can depend on the query");
    }
    const std::int64_t length = mask.size(packed() ? 'T' : 'S');
    if (length != p.k.size('S')) {
      fail_argument(operation_, "key_padding_mask must have an entry per key, got ", length, " for ", p.k.size('S'));
    }
    if (mask.size('B') != 1) checks_.size('B', mask, "key_padding_mask", q_.size('B'), "q");
  }

  void resolve_decay(LinearProblem& p) const {
    const ConstTensorView& decay = options_.decay;
    if (!decay) return;
    if (!p.is_causal) fail_argument(operation_, "decay needs is_causal: it counts the tokens since a key");
    if ((decay.dtype() != DType::f32 && decay.dtype() != DType::f64) || decay.rank() != 1 || !decay.has('H')) {
      fail_argument(operation_, "decay must be float32 or float64 with the axis H, got ", name(decay.dtype()), " and \"",
                    decay.axes().c_str(), "\"");
    }
    checks_.size('H', decay, "decay", p.num_kv_heads, "k");
    for (std::int64_t h = 0; h < p.num_kv_heads; ++h) {
      const double factor = load_element(decay.dtype(), decay.data(), h * decay.stride('H'));
      if (!(factor > 0 && factor <= 1)) fail_argument(operation_, "decay must be above 0 and at most 1, got ", factor);
      p.decay.push_back(factor);
    }
  }

  const AttentionNames& names_;
  const char* operation_;
  TensorChecks checks_;
  const ConstTensorView &q_, &k_, &v_;
  const LinearAttentionOptions& options_;
};

}  // namespace

LinearProblem::LinearProblem(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                             const LinearAttentionOptions& options)
    : q(unpacked(q)),
      k(unpacked(k)),
      v(unpacked(v)),
      feature_map(options.feature_map),
      rotation(options.rotation),
      rotate(options.rotate),
      normalizer(options.normalizer),
      num_q_heads(q.size('H')),
      num_kv_heads(k.size('H')),
      head_dim(q.size('D')),
      value_dim(v.size('D')),
      cu_seqlens(options.cu_seqlens),
      key_padding_mask(options.key_padding_mask),
      is_causal(options.is_causal),
      chunk_size(options.chunk_size) {}

LinearSequence LinearProblem::sequence(std::int64_t n) const noexcept {
  if (!cu_seqlens) return {n, 0, q.size('S'), 0, k.size('S')};
  const std::int64_t begin = entry(cu_seqlens, n), length = entry(cu_seqlens, n + 1) - begin;
  return {0, begin, length, begin, length};
}

bool LinearProblem::may_cancel() const noexcept {
  if (normalizer == Normalizer::none || normalizer == Normalizer::pair_norms) return false;
  return feature_map.features == Features::identity || feature_map.features == Features::one_plus_cos ||
         feature_map.features == Features::taylor2 || (turns_features() && shares_features());
}

bool LinearProblem::bounds_by_norm() const noexcept {
  return may_cancel() && feature_map.features == Features::taylor2 && !turns_features();
}

bool LinearProblem::is_token(std::int64_t row, std::int64_t key) const noexcept {
  const ConstTensorView& mask = key_padding_mask;
  if (!mask) return true;
  const std::int64_t batch_row = mask.size('B') > 1 ? row : 0;
  return static_cast<const bool*>(mask.data())[batch_row * mask.stride('B') + key * mask.stride(cu_seqlens ? 'T' : 'S')];
}

LinearProblem check_linear_inputs(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                  const ConstTensorView& v, const LinearAttentionOptions& options) {
  return Checked(names, q, k, v, options).problem();
}

LinearProblem check_linear_attention(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                     const ConstTensorView& v, const TensorView& out,
                                     const LinearAttentionOptions& options) {
  const char* const operation = names.operation;
  LinearProblem problem = check_linear_inputs(names, q, k, v, options);
  TensorChecks{operation}.shape(out, "out", q, "q", v, "v");
  check_linear_written(operation, out, "out", q, k, v, options);
  problem.out = unpacked(out);
  return problem;
}

void check_linear_written(const char* operation, const TensorView& written, const char* what, const ConstTensorView& q,
                          const ConstTensorView& k, const ConstTensorView& v, const LinearAttentionOptions& options) {
  if (overlaps_itself(written)) fail_argument(operation, "the elements of ", what, " must not overlap each other");
  NamedViews inputs;
  inputs.add("q", q);
  inputs.add("k", k);
  inputs.add("v", v);
  inputs.add("projection", options.feature_map.projection);
  inputs.add("key_padding_mask", options.key_padding_mask);
  inputs.add("cu_seqlens", options.cu_seqlens);
  inputs.add("decay", options.decay);
  inputs.add("q_positions", options.q_positions.position_ids);
  inputs.add("q_positions", options.q_positions.offsets);
  inputs.add("k_positions", options.k_positions.position_ids);
  inputs.add("k_positions", options.k_positions.offsets);
  const NamedView output = named(what, written);
  for (const NamedView& input : inputs) check_apart(operation, output, input);
  check_apart_from_state(operation, output, options.state);
}

void check_apart_from_state(const char* operation, const NamedView& written, LinearState* state) {
  if (state == nullptr || state->empty()) return;
  const MemoryRange range = LinearStateAccess::memory(*state);  // a view would cost every call of a stream more than this
  if (!meet(written.range, range)) return;
  const ConstTensorView numbers = LinearStateAccess::numbers(*state);
  check_apart(operation, written, named("the state", numbers));
}

ConstTensorView unpacked(const ConstTensorView& view) { return renamed(view); }
TensorView unpacked(const TensorView& view) { return renamed(view); }

}  // namespace rotary
