#include "rotation/heads.h"

#include "base/checked.h"
#include "base/fail.h"

namespace rotary {
namespace {

bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }

/// A complex number holds an interleaved pair.
ConstTensorView real_view(const char* operation, const char* what, const ConstTensorView& x, const Rotation& rotation) {
  if (rotation.pairing_in() != Pairing::interleaved || rotation.pairing_out() != Pairing::interleaved ||
      rotation.rotary_offset() % 2 != 0) {
    fail_argument(operation, what, " can be complex only where every pair is one number: pairing interleaved, even offset");
  }
  if (x.size('D') > 1 && x.stride('D') != 1) {
    fail_argument(operation, what, " must have stride 1 along D where it is complex, got ", x.stride('D'));
  }
  Dims shape = x.shape(), strides = x.strides();
  for (int i = 0; i < x.rank(); ++i) {
    const bool channels = x.axes()[i] == 'D';
    if (channels) shape[i] *= 2;
    strides[i] = channels ? 1 : checked_mul(strides[i], 2).value_or(0);  // not followed where it does not fit
  }
  return {x.data(), x.dtype() == DType::c64 ? DType::f32 : DType::f64, x.axes(), shape, strides};
}

/// Throws unless the tensor is as heads.h says.
void check_heads(const char* operation, const char* what, const ConstTensorView& x, const Rotation& rotation) {
  if (!x) fail_argument(operation, what, " must be given");
  for (int i = 0; i < x.rank(); ++i) {
    if (const char axis = x.axes()[i]; axis != 'B' && axis != 'S' && axis != 'T' && axis != 'H' && axis != 'D') {
      fail_argument(operation, what, " must have axes among B, S, T, H and D, got \"", x.axes().c_str(), "\"");
    }
  }
  if (!is_real_float(x.dtype()) && !is_complex(x.dtype())) {
    fail_argument(operation, what, " must be float64, float32, float16, bfloat16, complex128 or complex64, got ",
                  name(x.dtype()));
  }
  const std::int64_t per_channel = is_complex(x.dtype()) ? 2 : 1;
  const auto width = x.has('D') ? checked_mul(x.size('D'), per_channel) : 0;
  if (width != rotation.head_dim()) {
    fail_argument(operation, what, " must have head_dim channels along D, got ", x.has('D') ? x.size('D') : 0,
                  per_channel == 2 ? " complex ones" : "", " for head_dim ", rotation.head_dim());
  }
}

void check_written(const char* operation, const char* what, const ConstTensorView& x) {
  if (overlaps_itself(x)) fail_argument(operation, what, " must have elements that do not overlap each other");
}

TensorView writable(const ConstTensorView& x) {
  return {const_cast<void*>(x.data()), x.dtype(), x.axes(), x.shape(), x.strides()};
}

bool same_view(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype()) return false;
  for (const char axis : {'B', 'S', 'T', 'H', 'D'}) {
    if (a.size(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

void check_same_shape(const char* operation, const char* what, const ConstTensorView& x, const ConstTensorView& out) {
  for (const char axis : {'B', 'S', 'T', 'H', 'D'}) {
    if (x.has(axis) != out.has(axis) || x.size(axis) != out.size(axis)) {
      fail_argument(operation, what, " and out must have the same axes and lengths, got \"", x.axes().c_str(), "\" and \"",
                    out.axes().c_str(), "\" with ", x.size(axis), " and ", out.size(axis), " along ", axis);
    }
  }
}

}  // namespace

TensorToRotate turned_in_place(const char* operation, const char* what, const TensorView& x, const Rotation& rotation) {
  check_heads(operation, what, x, rotation);
  if (is_complex(x.dtype())) {
    const TensorView real = writable(real_view(operation, what, x, rotation));
    check_written(operation, what, real);
    return {real, real};
  }
  check_written(operation, what, x);
  return {x, x};
}

TensorToRotate turned_to(const char* operation, const char* what, const ConstTensorView& x, const TensorView& out,
                         const Rotation& rotation) {
  check_heads(operation, what, x, rotation);
  TensorToRotate tensor{is_complex(x.dtype()) ? real_view(operation, what, x, rotation) : x, out};
  check_heads(operation, "out", out, rotation);
  if (is_complex(out.dtype())) tensor.out = writable(real_view(operation, "out", out, rotation));
  check_written(operation, "out", tensor.out);
  check_same_shape(operation, what, tensor.x, tensor.out);
  if (!same_view(tensor.x, tensor.out) && may_share_memory(tensor.x, tensor.out)) {
    fail_argument(operation, "out must be ", what, " itself or not overlap it");
  }
  return tensor;
}

}  // namespace rotary
