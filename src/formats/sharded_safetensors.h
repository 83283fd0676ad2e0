// Reading a checkpoint that is spread over several safetensors files behind an index (model.safetensors.index.json).
#pragma once

#include <string>
#include <string_view>

#include "formats/file_contents.h"

namespace rotary {

/// `index` is the text of the file at `path`; the shards lie beside it. Tensors that the index does not map to the shard
/// they are in are left out, with a warning.
void read_sharded_safetensors(std::string_view index, const std::string& path, FileContents& contents);

}  // namespace rotary
