// What a reader finds odd about the files of one model: warnings under their ids, and faults that only lenient reading lets
// pass.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rotary {

class Findings {
 public:
  struct Entry {
    std::string id;
    std::string text;
  };

  explicit Findings(bool lenient) : lenient_(lenient) {}

  bool lenient() const { return lenient_; }

  /// `id` is one of warning_kinds(). The same text is kept once, as one line that a terminal can show. Names of which a file
  /// may have any number belong into one text: in_words().
  void warn(const std::string& id, const std::string& text);

  /// A broken rule that real loaders let pass. Strict: throws Error (invalid_file) "path: rule (--lenient: what loaders do)".
  /// Lenient: a warning with both.
  void tolerate(const std::string& id, const std::string& path, const std::string& rule,
                const std::string& what_loaders_do);

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  bool lenient_;
  std::vector<Entry> entries_;
  std::set<std::pair<std::string, std::string>> known_;  // a file decides how many there are
};

}  // namespace rotary
