#include <cstdint>
#include <utility>

#include "base/fail.h"
#include "base/text.h"
#include "formats/gguf_header.h"
#include "formats/little_endian.h"
#include "rotary/gguf.hpp"

namespace rotary {
namespace {

std::string where(const GgufValue& value) { return std::string(value.path) + ": key " + in_quotes(value.key); }

[[noreturn]] void fail_type(const GgufValue& value, const char* wanted) {
  fail_file(where(value), "must be ", wanted, ", got ", value.is_array ? "an array of " : "", name(value.type));
}

void check_index(const GgufValue& value, std::int64_t index) {
  if (index < 0 || index >= value.size) {
    fail_argument("gguf", where(value), ": the index must be below ", value.size, ", got ", index);
  }
}

/// The index of a value that stands alone.
std::int64_t only(const GgufValue& value, const char* wanted) {
  if (value.is_array) fail_type(value, wanted);
  return 0;
}

/// Calls `use` with the stored number, in its own type; false where the value holds none.
template <class Use>
bool with_number(const GgufValue& value, std::int64_t index, const Use& use) {
  const std::size_t size = gguf_element_size(value.type);
  const std::string_view bytes(value.data + static_cast<std::size_t>(index) * size, size);
  switch (value.type) {
    case GgufType::u8: use(load_little_endian<std::uint8_t>(bytes)); return true;
    case GgufType::i8: use(load_little_endian<std::int8_t>(bytes)); return true;
    case GgufType::u16: use(load_little_endian<std::uint16_t>(bytes)); return true;
    case GgufType::i16: use(load_little_endian<std::int16_t>(bytes)); return true;
    case GgufType::u32: use(load_little_endian<std::uint32_t>(bytes)); return true;
    case GgufType::i32: use(load_little_endian<std::int32_t>(bytes)); return true;
    case GgufType::u64: use(load_little_endian<std::uint64_t>(bytes)); return true;
    case GgufType::i64: use(load_little_endian<std::int64_t>(bytes)); return true;
    case GgufType::f32: use(load_little_endian<float>(bytes)); return true;
    case GgufType::f64: use(load_little_endian<double>(bytes)); return true;
    case GgufType::boolean:
    case GgufType::string:
    case GgufType::array: break;
  }
  return false;
}

template <class Integer>
Integer integer_as(const GgufValue& value, std::int64_t index) {
  check_index(value, index);
  if (value.type == GgufType::f32 || value.type == GgufType::f64) fail_type(value, "an integer");
  Integer result = 0;
  const bool is_number = with_number(value, index, [&](auto stored) {
    if constexpr (std::is_integral_v<decltype(stored)>) {
      // Widened first: the comparison takes no character types.
      const auto wide = std::conditional_t<std::is_signed_v<decltype(stored)>, std::int64_t, std::uint64_t>{stored};
      if (!std::in_range<Integer>(wide)) {
        fail_file(where(value), "must be an integer that fits in ", std::is_signed_v<Integer> ? "int64" : "uint64",
                  ", got ", wide);
      }
      result = static_cast<Integer>(wide);
    }
  });
  if (!is_number) fail_type(value, "an integer");
  return result;
}

GgufText text_at(const char* data) {
  const auto length = load_little_endian<std::uint64_t>({data, sizeof(std::uint64_t)});
  return {data + sizeof length, length};
}

}  // namespace

const char* name(GgufType type) noexcept {
  switch (type) {
    case GgufType::u8: return "uint8";
    case GgufType::i8: return "int8";
    case GgufType::u16: return "uint16";
    case GgufType::i16: return "int16";
    case GgufType::u32: return "uint32";
    case GgufType::i32: return "int32";
    case GgufType::f32: return "float32";
    case GgufType::boolean: return "bool";
    case GgufType::string: return "string";
    case GgufType::array: return "array";
    case GgufType::u64: return "uint64";
    case GgufType::i64: return "int64";
    case GgufType::f64: return "float64";
  }
  return "unknown";
}

std::size_t gguf_element_size(GgufType type) noexcept {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: break;
  }
  return 0;
}

std::int64_t GgufValue::integer() const { return integer_as<std::int64_t>(*this, only(*this, "an integer")); }

std::int64_t GgufValue::integer(std::int64_t index) const { return integer_as<std::int64_t>(*this, index); }

std::uint64_t GgufValue::unsigned_integer() const { return integer_as<std::uint64_t>(*this, only(*this, "an integer")); }

std::uint64_t GgufValue::unsigned_integer(std::int64_t index) const { return integer_as<std::uint64_t>(*this, index); }

double GgufValue::number() const { return number(only(*this, "a number")); }

double GgufValue::number(std::int64_t index) const {
  check_index(*this, index);
  double result = 0;
  if (!with_number(*this, index, [&](auto stored) { result = static_cast<double>(stored); })) fail_type(*this, "a number");
  return result;
}

bool GgufValue::boolean() const { return boolean(only(*this, "a bool")); }

bool GgufValue::boolean(std::int64_t index) const {
  check_index(*this, index);
  if (type != GgufType::boolean) fail_type(*this, "a bool");
  return data[index] != 0;
}

GgufText GgufValue::string() const {
  if (type != GgufType::string || is_array) fail_type(*this, "a string");
  return text_at(data);
}

std::vector<GgufText> GgufValue::strings() const {
  if (type != GgufType::string || !is_array) fail_type(*this, "an array of strings");
  std::vector<GgufText> texts;
  texts.reserve(static_cast<std::size_t>(size));  // each of them has been walked over
  const char* next = data;
  for (std::int64_t i = 0; i < size; ++i) {
    texts.push_back(text_at(next));
    next = texts.back().data + texts.back().size;
  }
  return texts;
}

}  // namespace rotary
