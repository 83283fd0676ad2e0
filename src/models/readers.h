// One reader per kind of model file. Each fills in a ModelDescription, or throws Error (invalid_file), (unsupported).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/description.h"
#include "rotary/model.hpp"

namespace rotary {

/// A config.json of Hugging Face transformers, already parsed. `path` stands in errors and sources; `repeated_keys` are those
/// that stood twice in one object, which only lenient reading lets pass.
ModelDescription read_huggingface(const nlohmann::json& config, const std::string& path, const ReadOptions& options,
                                  const std::vector<std::string>& repeated_keys = {});

/// A GGUF, of which only the header is read: what llama.cpp makes of it. Also a part of a split one.
ModelDescription read_gguf(const std::string& path, const ReadOptions& options);

/// A params.json of Meta or Mistral, already parsed.
ModelDescription read_params(const nlohmann::json& params, const std::string& path, const ReadOptions& options);
bool looks_like_params(const nlohmann::json& json);

}  // namespace rotary
