// Whether the program runs under a sanitizer, which is many times slower and keeps memory of its own beside ours.
#pragma once

namespace rotary {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace rotary
