// Typed, checked reading of the metadata of one GGUF. Keys are given without the architecture's prefix: "rope.freq_base".
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fail.h"
#include "models/provenance.h"
#include "rotary/gguf.hpp"

namespace rotary::gguf {

class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string path);

  const std::string& path() const { return path_; }
  const std::string& architecture() const { return architecture_; }

  std::string whole_key(const std::string& key) const { return prefix_ + key; }
  std::string source(const std::string& key) const;  ///< "model.gguf: llama.rope.freq_base"

  /// Nothing where the key is missing; Error (invalid_file) where its value is of the wrong kind.
  std::optional<Found<std::int64_t>> count(const std::string& key);  ///< a whole number from 1 to 2^31
  std::optional<Found<std::int64_t>> whole(const std::string& key);  ///< from 0 to 2^31
  std::optional<Found<double>> number(const std::string& key);       ///< finite
  std::optional<Found<double>> positive_number(const std::string& key);
  std::optional<Found<bool>> boolean(const std::string& key);
  std::optional<Found<std::string>> text(const std::string& key);
  /// `size` numbers from 0 to 2^31: a list of so many, or one number for all.
  std::optional<Found<std::vector<std::int64_t>>> wholes(const std::string& key, std::int64_t size);
  /// The first `size` entries of a list of bools, or of numbers other than 0; nothing where the value is no list.
  std::optional<Found<std::vector<bool>>> flags(const std::string& key, std::int64_t size);

  /// The value of a key that must be there.
  Found<std::int64_t> required_count(const std::string& key);

  /// Counts the key as read: one without effect, of which nothing needs to be said.
  void pass_over(const std::string& key) { read_.insert(prefix_ + key); }
  /// Whole keys that start like this and that nobody asked for, in the file's order.
  std::vector<std::string> unread(const std::string& beginning) const;

  /// Throws Error (invalid_file): "model.gguf: llama.rope.freq_base must be positive, got 0".
  template <class T>
  [[noreturn]] void refuse(const std::string& key, const std::string& rule, const T& got) const;

 private:
  const GgufValue* find(const std::string& key);

  const GgufFile& file_;
  std::string path_;
  std::string architecture_;
  std::string prefix_;
  std::set<std::string> read_;
};

template <class T>
void GgufKeys::refuse(const std::string& key, const std::string& rule, const T& got) const {
  fail_file(path_, prefix_, key, " must be ", rule, ", got ", got);
}

}  // namespace rotary::gguf
