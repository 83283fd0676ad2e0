#include "attention/visible_checks.h"

#include "attention/tensor_checks.h"
#include "base/fail.h"

namespace rotary {
namespace {

class VisibleChecks {
 public:
  VisibleChecks(const char* operation, const AttentionProblem& problem)
      : operation_(operation), checks_{operation}, p_(problem), options_(problem.options) {}

  void check() const {
    check_window(options_.window_left, "window_left");
    check_window(options_.window_right, "window_right");
    if (options_.chunk_size < 0) fail_argument(operation_, "chunk_size must be at least 0, got ", options_.chunk_size);
    if (options_.prefix_lengths) check_prefix_lengths();
    check_documents();
    if (options_.key_padding_mask) check_padding();
    if (options_.attn_mask) check_mask();
  }

 private:
  void check_window(std::int64_t reach, const char* what) const {
    if (reach < -1) fail_argument(operation_, what, " must be at least 0, or -1 for no limit, got ", reach);
  }

  void check_integers(const ConstTensorView& view, const char* what) const {
    if (view.dtype() == DType::i32 || view.dtype() == DType::i64) return;
    fail_argument(operation_, what, " must be int32 or int64, got ", name(view.dtype()));
  }

  void check_prefix_lengths() const {
    constexpr const char* what = "prefix_lengths";
    const ConstTensorView& lengths = options_.prefix_lengths;
    const char axis = p_.is_packed() ? 'N' : 'B';
    if (options_.causal == Causal::none) {
      fail_argument(operation_, what, " need a causal rule: they say which keys it does not hide");
    }
    check_integers(lengths, what);
    if (lengths.rank() != 1 || !lengths.has(axis)) {
      fail_argument(operation_, what, " must have the axis ", axis, " alone, got \"", lengths.axes().c_str(), "\"");
    }
    if (lengths.size(axis) != p_.num_sequences) {
      fail_argument(operation_, what, " must have one entry per ", p_.is_packed() ? "sequence" : "batch row", ", got ",
                    lengths.size(axis), " for ", p_.num_sequences);
    }
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) {
      const std::int64_t length = whole_number(lengths, n * lengths.stride(axis));
      if (length < 0) fail_argument(operation_, what, " must be at least 0, got ", length);
    }
  }

  void check_per_token(const ConstTensorView& view, const char* what, std::int64_t num_tokens, const char* token) const {
    checks_.per_token(view, what, p_.token_axis, num_tokens, token, p_.q.size('B'));
  }

  void check_documents() const {
    const ConstTensorView &of_queries = options_.q_document_ids, &of_keys = options_.k_document_ids;
    if (!of_queries && !of_keys) return;
    if (!of_queries || !of_keys) {
      fail_argument(operation_, "q_document_ids and k_document_ids need each other");
    }
    check_integers(of_keys, "k_document_ids");
    check_integers(of_queries, "q_document_ids");
    check_per_token(of_keys, "k_document_ids", p_.num_keys, "key");
    check_per_token(of_queries, "q_document_ids", p_.num_queries, "query");
  }

  void check_padding() const {
    const ConstTensorView& mask = options_.key_padding_mask;
    if (mask.dtype() != DType::boolean) {
      fail_argument(operation_, "key_padding_mask must be boolean, true for a token, got ", name(mask.dtype()));
    }
    check_per_token(mask, "key_padding_mask", p_.num_keys, "key");
  }

  void check_mask() const {
    const ConstTensorView& mask = options_.attn_mask;
    if (mask.dtype() != DType::boolean && !is_real_float(mask.dtype())) {
      fail_argument(operation_, "attn_mask must be float64, float32, float16, bfloat16 or boolean, got ",
                    name(mask.dtype()));
    }
    checks_.axes(mask, "attn_mask", "BHQK");
    const struct {
      char axis;
      std::int64_t length;
    } expected[] = {
        {'B', p_.is_packed() ? 1 : p_.num_sequences}, {'H', p_.num_q_heads}, {'Q', p_.num_queries}, {'K', p_.num_keys}};
    for (const auto& [axis, length] : expected) {
      if (mask.size(axis) != length && mask.size(axis) != 1) {
        fail_argument(operation_, "attn_mask must have the length ", length, " or 1 along ", axis, ", got ",
                      mask.size(axis));
      }
    }
  }

  const char* operation_;
  TensorChecks checks_;
  const AttentionProblem& p_;
  const AttentionOptions& options_;
};

}  // namespace

void check_visible_options(const char* operation, const AttentionProblem& problem) {
  VisibleChecks(operation, problem).check();
}

}  // namespace rotary
