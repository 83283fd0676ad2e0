// One parser, fed with any bytes. A fuzz target must end in one of two ways: a result, or an Error with a sentence.
// Everything else (another exception, a crash, a read outside, endless memory or time) is a find.
#pragma once

#include <cstddef>
#include <cstdint>

// The name is libFuzzer's; fuzz/replay.cc calls the same function with the files of the corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
