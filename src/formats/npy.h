// Reading one .npy array.
#pragma once

#include <string>
#include <string_view>

#include "formats/file_contents.h"

namespace rotary {

/// `bytes` must live as long as `contents`: the data stay where they are, unless they are big-endian or lie at an address
/// that does not suit their type. The name of the result is "". `where` stands in front of errors.
StoredTensor read_npy(std::string_view bytes, const std::string& where, FileContents& contents);

}  // namespace rotary
