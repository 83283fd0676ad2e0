// Marks what the shared library shows; everything else stays hidden.
#pragma once

#if defined(_WIN32)
#define ROTARY_API
#else
#define ROTARY_API __attribute__((visibility("default")))
#endif
