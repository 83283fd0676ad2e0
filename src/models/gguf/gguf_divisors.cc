#include "models/gguf/gguf_divisors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fail.h"
#include "models/config_object.h"

namespace rotary::gguf {
namespace {

constexpr const char* freqs_name = "rope_freqs.weight";
constexpr const char* short_name = "rope_factors_short.weight";
constexpr const char* long_name = "rope_factors_long.weight";

class Reader {
 public:
  Reader(const GgufFile& file, const std::string& path, std::int64_t num_pairs, std::int64_t pairs_of_head,
         Findings& findings)
      : file_(file), path_(path), num_pairs_(num_pairs), pairs_of_head_(pairs_of_head), findings_(findings) {}

  /// Empty where there is no such tensor.
  std::vector<double> read(const char* name) const {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) return {};
    constexpr std::uint32_t f32 = 0;
    const bool fits = tensor->type == f32 && tensor->dims.size() == 1 &&
                      (tensor->dims[0] == num_pairs_ || tensor->dims[0] == pairs_of_head_);
    if (!fits) {
      fail_file(path_, "tensor ", name, " must be a list of ", num_pairs_, " float32, one per pair, got ",
                tensor->type_name, " ", shape(*tensor));
    }
    std::vector<double> divisors;
    for (std::int64_t j = 0; j < num_pairs_; ++j) {
      float divisor = 0;
      std::memcpy(&divisor, static_cast<const char*>(tensor->data) + static_cast<std::size_t>(j) * sizeof divisor,
                  sizeof divisor);
      if (!(std::isfinite(divisor) && divisor > 0)) {
        fail_file(path_, "tensor ", name, " must hold finite positive divisors, got ", divisor, " for pair ", j);
      }
      divisors.push_back(divisor);
    }
    return divisors;
  }

  void read_lists(bool is_longrope, GgufDivisors& divisors) const {
    divisors.short_lists = read(short_name);
    divisors.long_lists = read(long_name);
    const bool has_none = divisors.short_lists.empty() && divisors.long_lists.empty();
    if (has_none && !is_longrope) return;
    if (!divisors.short_lists.empty() && !divisors.long_lists.empty()) return;
    findings_.tolerate("RP025", path_, sentence("LongRoPE needs both tensors, ", short_name, " and ", long_name),
                       "llama.cpp takes divisors of 1 for one that is missing");
    if (has_none) return;
    const std::vector<double> ones(static_cast<std::size_t>(num_pairs_), 1.0);
    (divisors.short_lists.empty() ? divisors.short_lists : divisors.long_lists) = ones;
  }

  void warn_unused(const char* name) const {
    if (file_.find_tensor(name) == nullptr) return;
    findings_.warn("RP020", sentence("tensor ", name, " of ", file_name(path_), ", which llama.cpp does not use here"));
  }

 private:
  static std::string shape(const GgufTensor& tensor) {
    std::string text = "[";
    for (const std::int64_t dim : tensor.dims) text.append(text.size() == 1 ? "" : ", ").append(std::to_string(dim));
    return text + "]";
  }

  const GgufFile& file_;
  const std::string& path_;
  std::int64_t num_pairs_;
  std::int64_t pairs_of_head_;
  Findings& findings_;
};

}  // namespace

bool GgufDivisors::silence_some() const {
  const auto is_one = [](double divisor) { return divisor == 1; };
  const auto is_silent = [](double divisor) { return divisor >= never_turns; };
  return std::any_of(fixed.begin(), fixed.end(), is_silent) &&
         std::all_of(fixed.begin(), fixed.end(), [&](double divisor) { return is_one(divisor) || is_silent(divisor); });
}

GgufDivisors read_gguf_divisors(const Architecture& architecture, const GgufFile& file, const std::string& path,
                                bool is_longrope, std::int64_t rotary_dim, std::int64_t head_dim, Findings& findings) {
  bool freqs = false, lists = false;
  switch (architecture.divisors) {
    case Divisors::none: break;
    case Divisors::freqs:
    case Divisors::freqs_on_full: freqs = true; break;
    case Divisors::lists: lists = true; break;
    case Divisors::freqs_or_lists:
    case Divisors::freqs_or_lists_on_full: (is_longrope ? lists : freqs) = true; break;
  }
  const Reader reader(file, path, rotary_dim / 2, head_dim / 2, findings);
  GgufDivisors divisors;
  if (freqs) divisors.fixed = reader.read(freqs_name);
  else reader.warn_unused(freqs_name);
  if (lists) {
    reader.read_lists(is_longrope, divisors);
  } else {
    reader.warn_unused(short_name);
    reader.warn_unused(long_name);
  }
  return divisors;
}

}  // namespace rotary::gguf
