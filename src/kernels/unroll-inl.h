// unroll<4>([&](auto i) ROTARY_LAMBDA { … }): the body with i = 0, 1, 2, 3 as constants, so that arrays of vectors stay in
// registers. Included once per instruction set: a helper compiled for another one could not be inlined.
#include <type_traits>
#include <utility>

#include <hwy/highway.h>

#if defined(ROTARY_UNROLL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_UNROLL_INL_H
#undef ROTARY_UNROLL_INL_H
#else
#define ROTARY_UNROLL_INL_H
#endif

// g++ 12 leaves a lambda that is called twice out of line unless told otherwise, and spills every vector around it.
#undef ROTARY_LAMBDA
#define ROTARY_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {

template <class Body, int... i>
HWY_INLINE void unroll_sequence(const Body& body, std::integer_sequence<int, i...>) {
  (body(std::integral_constant<int, i>()), ...);
}
template <int count, class Body>
HWY_INLINE void unroll(const Body& body) {
  unroll_sequence(body, std::make_integer_sequence<int, count>());
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
