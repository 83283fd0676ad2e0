// Whether the program runs under a sanitizer, which is many times slower and keeps memory of its own beside ours.
#pragma once

namespace rotary {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
inline constexpr bool sanitized = true;
#elif defined(__has_feature)  // clang
inline constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace rotary
