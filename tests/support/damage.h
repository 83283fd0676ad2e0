// Files with something wrong in them, made from a good one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "formats/file_contents.h"
#include "rotary/error.hpp"

namespace rotary {

/// Whether `read(bytes, contents)` accepts the bytes. They lie in a block of just their size, and every byte of every
/// tensor is looked at, so that AddressSanitizer sees any step outside. Anything thrown but an Error fails the test.
template <class Read>
bool accepts(const std::string& bytes, const Read& read) {
  const std::unique_ptr<char[]> block(new char[bytes.size()]);
  bytes.copy(block.get(), bytes.size());
  try {
    FileContents contents;
    read(std::string_view(block.get(), bytes.size()), contents);
    for (const StoredTensor& tensor : contents.tensors) {
      const std::string copy(static_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.num_bytes));
      EXPECT_EQ(copy.size(), static_cast<std::size_t>(tensor.num_bytes));
    }
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "must be an Error: " << other.what();
    return false;
  }
}

/// The file cut short after any byte is refused; with any one byte changed it is read or refused, and no more.
template <class Read>
void expect_damage_to_be_survived(const std::string& good, const Read& read) {
  ASSERT_TRUE(accepts(good, read));
  for (std::size_t length = 1; length < good.size(); ++length) {
    EXPECT_FALSE(accepts(good.substr(0, length), read)) << "cut to " << length << " bytes";
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char wrong :
         {'\x00', '\x01', '\x7f', '\xff', static_cast<char>(good[i] ^ 0x80), static_cast<char>(good[i] + 1),
          static_cast<char>(good[i] - 1), '9', '-', '"', '\'', '[', ']', '{', '}', ',', ' '}) {
      std::string bad = good;
      bad[i] = wrong;
      accepts(bad, read);
    }
  }
}

}  // namespace rotary
