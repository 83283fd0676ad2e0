// The gradients of softmax attention, with respect to queries and keys before they turn.
//
//     p(i, j)  = exp(score(i, j) - lse(i))                      the weights, computed again
//     ds(i, j) = p(i, j) (dout(i) . v(j) - delta(i))            delta(i) = dout(i) . out(i) - dlse(i)
//
//     dv(j) = sum_i p(i, j) dout(i)
//     dk(j) = scale R(p_j)^T sum_i ds(i, j) R(p_i) q(i)         dq(i) = scale R(p_i)^T sum_j ds(i, j) R(p_j) k(j)
//     dsink = -sum_i exp(sink - lse(i)) delta(i)
//
// (Dao et al. 2022, appendix B.4; R^T is the rotation's transpose, not its inverse: an amplitude is multiplied in again.)
// Where query heads share a KV head, dk and dv are sums over them. A sink is a key without a value: dsink is its ds.
//
// In double where one of the tensors is f64, else in float32, 16-bit tensors too: sums are never kept in 16 bits, and each
// result is rounded once. The score matrix is never stored. Every sum is taken in an order that the sizes alone decide: the
// same bits on any number of threads and from run to run. Memory: about 8 MiB per thread, and dk and dv in the computing
// dtype where a sequence has many queries.
#pragma once

#include "rotary/attention.hpp"
#include "rotary/export.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// Where gradients go, each of any float dtype; one that is not given is not computed.
struct AttentionGradients {
  TensorView q = {};  ///< shaped like q, and so on
  TensorView k = {};
  TensorView v = {};
  TensorView sinks = {};  ///< axis H; needs options.sinks. Does not decide the computing dtype; 0 for a sink of -infinity
};

/// The gradients of sum(out * dout) + sum(lse * dlse), `out` and options.lse being what attention() made of the same q, k, v
/// and options. options.lse must be given, and is read here. dout is shaped like out, dlse (f32 or f64; not given: 0) like
/// lse. Masks and biases are constants. options.workspace must have attention_backward_workspace_bytes(), more than
/// attention() needs.
///
/// What a query does not see gets nothing from it, whatever either holds, NaN included; a query that sees no key, and a key
/// that no query sees, get zeros. A NaN or an infinity in a row of q or dout makes all gradients NaN to which the row adds,
/// one in a key or a value those of the rows that see it.
///
/// The gradients must not overlap each other, themselves or what is read. Errors: Error (invalid_argument) with the rule that
/// the arguments break, Error (unsupported) as attention(); nothing is written in that case.
ROTARY_API void attention_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                   const ConstTensorView& out, const ConstTensorView& dout,
                                   const AttentionGradients& gradients, const AttentionOptions& options,
                                   const ConstTensorView& dlse = {});

/// What a call with the same arguments needs as options.workspace: what the text above says of memory. Errors as
/// attention_backward().
ROTARY_API std::int64_t attention_backward_workspace_bytes(const ConstTensorView& q, const ConstTensorView& k,
                                                           const ConstTensorView& v, const ConstTensorView& out,
                                                           const ConstTensorView& dout, const AttentionGradients& gradients,
                                                           const AttentionOptions& options,
                                                           const ConstTensorView& dlse = {});

}  // namespace rotary
