// The header of a .npy array: a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// (NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

inline constexpr std::string_view npy_magic = "\x93NUMPY";

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads just this kind of literal and nothing else of Python. Throws Error (invalid_file), `where` in front.
NpyHeader parse_npy_header(std::string_view literal, const std::string& where);

/// Everything in front of the data, byte for byte as numpy.save writes it (NumPy 1.26 and later). Throws Error
/// (unsupported) for a type that .npy cannot name.
std::string npy_preamble(const NpyHeader& header);

}  // namespace rotary
