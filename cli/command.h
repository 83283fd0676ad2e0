// What every subcommand shares. One file per subcommand: it adds its options to the program and says what to run.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace rotary::cli {

/// Exit codes, the same for every command.
enum Exit : int {
  right = 0,
  differs = 1,        ///< checked, and it is not so
  usage = 2,          ///< a wrong option or argument
  bad_file = 3,       ///< a file that cannot be read or written, or is invalid
  not_supported = 4,  ///< well formed, but outside what this build does
};

/// The subcommand chosen by the command line; returns the exit code.
using Command = std::function<int()>;

/// An option that takes one of a few words.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& option, T& value, std::vector<std::pair<std::string, T>> choices,
                        const std::string& help) {
  std::vector<std::string> words;
  std::string list;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    list += (list.empty() ? "" : "|") + word;
  }
  const auto take = [&value, choices](const std::string& given) {
    for (const auto& [word, meaning] : choices) {
      if (word == given) value = meaning;
    }
  };
  return app.add_option_function<std::string>(option, take, help)->check(CLI::IsMember(words))->option_text(list);
}

/// A whole number that is not too small.
inline CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& given) -> std::string {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    const bool whole = error == std::errc() && end == given.data() + given.size();
    return whole && value >= least ? "" : "must be a whole number, at least " + std::to_string(least) + ", got " + given;
  };
  return {check, ""};
}

inline CLI::Validator not_empty() {
  return {[](const std::string& given) -> std::string { return given.empty() ? "must not be empty" : ""; }, ""};
}

/// A path with one of these endings, refused before any work is done.
inline CLI::Validator ends_in(const std::vector<std::string>& endings) {
  const auto check = [endings](const std::string& given) -> std::string {
    std::string list;
    for (std::size_t i = 0; i < endings.size(); ++i) {
      if (given.size() >= endings[i].size() && given.ends_with(endings[i])) return "";
      list += (i == 0 ? "" : i + 1 == endings.size() ? " or " : ", ") + endings[i];
    }
    return "must end in " + list + ", got " + given;
  };
  return {check, ""};
}

void add_inspect(CLI::App& program, Command& command);
void add_compare(CLI::App& program, Command& command);
void add_frequencies(CLI::App& program, Command& command);
void add_plot(CLI::App& program, Command& command);
void add_explain(CLI::App& program, Command& command);
void add_rotate(CLI::App& program, Command& command);
void add_attend(CLI::App& program, Command& command);
void add_verify(CLI::App& program, Command& command);
void add_precision(CLI::App& program, Command& command);
void add_claims(CLI::App& program, Command& command);

}  // namespace rotary::cli
