// config.json and params.json: strict and lenient, by the first byte.
#include <string_view>

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "fuzz_target.h"
#include "model_input.h"
#include "models/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rotary;
  return answer([&] {
    // JSON starts with a space as well as with a brace: that space asks for lenient reading.
    const ReadOptions options{.lenient = size > 0 && data[0] == ' '};
    const nlohmann::json json =
        parse_json({reinterpret_cast<const char*>(data), size}, "config.json", {.python_constants = true});
    if (!json.is_object()) return;
    use(looks_like_params(json) ? read_params(json, "params.json", options)
                                : read_huggingface(json, "config.json", options));
  });
}
