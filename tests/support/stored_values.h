// What a stored tensor holds, read index by index through its strides.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotary/tensor_file.hpp"

namespace rotary {

/// The bytes of every element in C order, whatever the strides. For types of whole bytes.
inline std::vector<std::string> element_bytes(const StoredTensor& tensor) {
  const std::int64_t size = bit_size(tensor.dtype) / 8;
  std::vector<std::string> elements;
  for (std::int64_t i = 0; i < tensor.num_bytes / size; ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0; rest /= tensor.shape[axis]) {
      offset += rest % tensor.shape[axis] * tensor.strides[axis];
    }
    elements.emplace_back(static_cast<const char*>(tensor.data) + offset * size, static_cast<std::size_t>(size));
  }
  return elements;
}

template <class T>
T from_bytes(const std::string& bytes) {
  T value;
  if (bytes.size() != sizeof value) throw std::logic_error("an element of another size");
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// In C order, as double.
inline std::vector<double> stored_values(const StoredTensor& tensor) {
  const auto value = [&](const std::string& bytes) -> double {
    switch (tensor.dtype) {
      case DType::f64: return from_bytes<double>(bytes);
      case DType::f32: return from_bytes<float>(bytes);
      case DType::f16: return to_float(from_bytes<float16>(bytes));
      case DType::bf16: return to_float(from_bytes<bfloat16>(bytes));
      case DType::i64: return static_cast<double>(from_bytes<std::int64_t>(bytes));
      case DType::i32: return from_bytes<std::int32_t>(bytes);
      case DType::i16: return from_bytes<std::int16_t>(bytes);
      case DType::i8: return from_bytes<std::int8_t>(bytes);
      case DType::u64: return static_cast<double>(from_bytes<std::uint64_t>(bytes));
      case DType::u32: return from_bytes<std::uint32_t>(bytes);
      case DType::u16: return from_bytes<std::uint16_t>(bytes);
      case DType::u8:
      case DType::boolean: return from_bytes<std::uint8_t>(bytes);
      default: throw std::logic_error(std::string("no value for ") + name(tensor.dtype));
    }
  };
  std::vector<double> values;
  for (const std::string& bytes : element_bytes(tensor)) values.push_back(value(bytes));
  return values;
}

}  // namespace rotary
