// What the writers share: the rules for what they are handed, and the parts of which files are put together.
#pragma once

#include <string>
#include <vector>

#include "formats/element_stream.h"
#include "rotary/tensor_file.hpp"

namespace rotary {

/// Names that are given, different and UTF-8, and views that are given. `operation` stands in front of errors.
void check_tensors(const char* operation, const std::vector<TensorToWrite>& tensors);

/// A .npy array in two parts. A column-major view becomes a column-major array, as with numpy.save.
struct NpyParts {
  std::string preamble;
  ElementStream elements;
};
NpyParts npy_parts(const ConstTensorView& view);

}  // namespace rotary
