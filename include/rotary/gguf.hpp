// Reading the header of a GGUF file: its metadata, and where its tensors lie.
//
//     const rotary::GgufFile file("model.gguf");
//     const double base = file.at("llama.rope.freq_base").number();
//
// The file is mapped, and only its header is read, however large the file. No number in it is trusted: every count and
// length is compared with the bytes that are there before it is used. Strings and arrays are views into the file.
// docs/formats.md lists the rules and where they come from. Errors: Error (invalid_file) with the path and the broken
// rule; Error (unsupported) where a file is well formed and yet not read: version 1, big-endian, arrays of arrays, tensor
// types whose size is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

/// How a value is stored. The numbers are the format's own.
enum class GgufType : std::uint8_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

ROTARY_API const char* name(GgufType type) noexcept;  ///< "uint32", "string", …

/// Bytes in the file, with no zero at their end.
struct GgufText {
  const char* data = "";
  std::size_t size = 0;
};

/// One key and its value. Lives as long as its GgufFile. What is asked for must fit what is stored, or the call throws
/// Error (invalid_file) with the key; an index outside 0 … size - 1 is an Error (invalid_argument).
struct ROTARY_API GgufValue {
  const char* key = "";
  GgufType type = GgufType::u8;  ///< of the elements, where the value is an array
  bool is_array = false;
  std::int64_t size = 1;       ///< elements of an array, otherwise 1
  const char* data = nullptr;  ///< as the file has it: little-endian, at any address
  const char* path = "";       ///< of the file

  // Without an index: the value, which must be no array. With one: an element.

  /// Any stored integer, where it fits; a boolean is none.
  std::int64_t integer() const;
  std::int64_t integer(std::int64_t index) const;
  std::uint64_t unsigned_integer() const;
  std::uint64_t unsigned_integer(std::int64_t index) const;
  /// Any stored integer or float; an integer beyond 2^53 is rounded. A float may be NaN or infinite.
  double number() const;
  double number(std::int64_t index) const;
  bool boolean() const;
  bool boolean(std::int64_t index) const;
  /// One string that is no array's: UTF-8.
  GgufText string() const;
  /// The strings of an array. Vocabularies hold pieces of characters: these need not be UTF-8.
  std::vector<GgufText> strings() const;
};

/// One tensor. Lives as long as its GgufFile.
struct GgufTensor {
  const char* name = "";           ///< UTF-8, at most 64 bytes
  std::uint32_t type = 0;          ///< ggml's number
  const char* type_name = "";      ///< ggml's name: "F32", "Q4_K", …
  std::vector<std::int64_t> dims;  ///< at most 4; dims[0] lies innermost, as NumPy's last axis does
  std::int64_t offset = 0;         ///< of the data, from the data section's begin
  std::int64_t num_bytes = 0;      ///< without padding
  const void* data = nullptr;      ///< at a multiple of the alignment; nullptr where there are no bytes
  std::size_t part = 0;            ///< which of GgufFile::parts() it lies in
};

/// One file on disk.
struct GgufPart {
  const char* path = "";
  std::uint32_t version = 3;
  std::int64_t alignment = 32;
  std::int64_t data_start = 0;  ///< of the data section, from the file's begin
};

/// An open GGUF, read-only: one file, or all parts of a split one. May be used from several threads at once.
class ROTARY_API GgufFile {
 public:
  /// The file, or any part of a split model (name-00001-of-00003.gguf): the others must lie beside it. The file may be
  /// renamed, replaced or deleted meanwhile; one that is cut short while it is open ends the program, as with every
  /// mapping.
  explicit GgufFile(const char* path);
  GgufFile(GgufFile&& other) noexcept;
  GgufFile& operator=(GgufFile&& other) noexcept;
  ~GgufFile();

  /// In the file's order. Of a split model, those of the first part.
  const std::vector<GgufValue>& values() const noexcept;
  const GgufValue* find(const char* key) const noexcept;  ///< nullptr where there is none
  const GgufValue& at(const char* key) const;             ///< throws Error (invalid_file) where there is none

  /// In the file's order, part after part.
  const std::vector<GgufTensor>& tensors() const noexcept;
  const GgufTensor* find_tensor(const char* name) const noexcept;  ///< nullptr where there is none

  const std::vector<GgufPart>& parts() const noexcept;
  /// What the format allows and llama.cpp refuses: data with gaps or in another order, names of 64 bytes.
  const std::vector<const char*>& warnings() const noexcept;

 private:
  struct Contents;
  Contents* contents_;
};

}  // namespace rotary
