// A checkpoint folder: which of its files describes the model.
#pragma once

#include <string>

namespace rotary {

/// config.json, else params.json, else the only GGUF (the first part of a split one). A path that is no folder is returned
/// as it is. Throws Error (invalid_file) where there is none, or several GGUFs.
std::string find_model_file(const std::string& path);

}  // namespace rotary
