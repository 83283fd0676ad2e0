#include "kernels/float_rows.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"
#include "kernels/float16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));

HWY_INLINE void store_bf16(float16s::F value, std::uint16_t* to) {
  using namespace float16s;
  const W bits = hn::BitCast(Words(), value);
  const W quiet = hn::Or(bits, hn::Set(Words(), 0x00400000u));  // so that rounding a NaN cannot carry it away
  const auto is_number = hn::RebindMask(Words(), hn::Eq(value, value));
  const W rounded = hn::ShiftRight<16>(hn::IfThenElse(is_number, round_up_to_bf16(value), quiet));
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<Words>(), rounded)), Halves(), to);
}

}  // namespace

void widen_row_kernel(DType dtype, const void* data, std::int64_t length, float* to) noexcept {
  const auto* from = static_cast<const std::uint16_t*>(data);
  const float16s::Floats d;
  std::int64_t i = 0;
  if (dtype == DType::bf16) {
    for (; i + lanes <= length; i += lanes) hn::StoreU(float16s::load_bf16(from + i), d, to + i);
    for (; i < length; ++i) to[i] = to_float(bfloat16{from[i]});
  } else {
    for (; i + lanes <= length; i += lanes) hn::StoreU(float16s::load_f16(from + i), d, to + i);
    for (; i < length; ++i) to[i] = to_float(float16{from[i]});
  }
}

void narrow_row_kernel(const float* from, std::int64_t length, DType dtype, void* data) noexcept {
  auto* to = static_cast<std::uint16_t*>(data);
  const float16s::Floats d;
  std::int64_t i = 0;
  if (dtype == DType::bf16) {
    for (; i + lanes <= length; i += lanes) store_bf16(hn::LoadU(d, from + i), to + i);
    for (; i < length; ++i) to[i] = to_bfloat16(from[i]).bits;
  } else {
    for (; i + lanes <= length; i += lanes) float16s::store_f16(hn::LoadU(d, from + i), to + i);
    for (; i < length; ++i) to[i] = to_float16(from[i]).bits;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

void widen_row(DType dtype, const void* from, std::int64_t length, float* to) noexcept {
  ROTARY_KERNEL(widen_row_kernel)(dtype, from, length, to);
}

void narrow_row(const float* from, std::int64_t length, DType dtype, void* to) noexcept {
  ROTARY_KERNEL(narrow_row_kernel)(from, length, dtype, to);
}

}  // namespace rotary
#endif
