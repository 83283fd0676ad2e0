// One task of linear_attention_backward(): a sequence and a KV head, token by token.
//
// With h_i = dout_i / den_i and r_i = -(dout_i . out_i) / den_i, S_i and z_i the sums that query i meets:
//
//     da_i = S_i h_i                          dc_i = r_i z_i                  forwards, with the sums
//     T_j = sum_{i >= j} a_i h_i^T            u_j = sum_{i >= j} r_i c_i
//     db_j = T_j v_j     dv_j = T_j^T b_j     de_j = u_j                      backwards, with T and u
//
// A gate between j and i multiplies T and u as it does the sums. The running maximum of favor_plus counts as a constant, which
// is exact: it cancels.
#pragma once

#include <cstdint>

#include "attention/feature_map.h"
#include "attention/linear_problem.h"
#include "attention/linear_state.h"

namespace rotary {

/// Views that are not given are left out. Packed tokens have the axis S here, too.
struct LinearGradientViews {
  ConstTensorView dout;
  TensorView dq, dk, dv;
};

/// `sums` are those before the sequence and end as those after it; `gradients` are with respect to those after it and end as
/// those with respect to the sums before it.
template <class T>
LinearAttentionReport attend_linearly_backward(const LinearProblem& problem, const FeatureRows<T>& map,
                                               const LinearGradientViews& views, const LinearSequence& sequence,
                                               std::int64_t kv_head, const LinearSums<T>& sums,
                                               const LinearSums<T>& gradients);

}  // namespace rotary
