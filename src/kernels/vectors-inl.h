// The widest vectors of a type. Included once per instruction set, like unroll-inl.h.
#include <hwy/highway.h>

#if defined(ROTARY_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_VECTORS_INL_H
#undef ROTARY_VECTORS_INL_H
#else
#define ROTARY_VECTORS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
