// rotary explain: what a warning means, and what to do about it.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include "output.h"
#include "rotary/error.hpp"
#include "rotary/warning.hpp"

namespace rotary::cli {
namespace {

struct Options {
  std::string id;
  bool json = false;
};

Json kind_json(const WarningKind& kind) {
  return {{"id", kind.id},
          {"severity", name(kind.severity)},
          {"title", kind.title},
          {"meaning", kind.meaning},
          {"advice", kind.advice}};
}

/// "7" and "rp7" for RP007: the number alone says which one is meant.
std::string likely_id(const std::string& given) {
  std::string digits;
  std::copy_if(given.begin(), given.end(), std::back_inserter(digits), [](char c) { return c >= '0' && c <= '9'; });
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty() || digits.size() > 3) return "";
  const std::string id = "RP" + std::string(3 - digits.size(), '0') + digits;
  return find_warning_kind(id.c_str()) == nullptr ? "" : id;
}

const WarningKind& kind_of(const std::string& id) {
  if (const WarningKind* kind = find_warning_kind(id.c_str())) return *kind;
  const std::string likely = likely_id(id);
  const std::string advice = likely.empty() ? "rotary explain lists them all" : "did you mean " + likely + "?";
  throw Error(ErrorCode::invalid_argument, ("explain: there is no warning " + plain(id) + "; " + advice).c_str());
}

void print_paragraph(const std::string& text) {
  for (const std::string& line : wrapped(text, line_width - 2)) std::cout << "  " << line << '\n';
}

void print_kind(const WarningKind& kind) {
  std::cout << bold(std::string(kind.id) + ", " + name(kind.severity) + ": " + kind.title) << "\n\n";
  print_paragraph(kind.meaning);
  std::cout << "\nwhat to do\n";
  print_paragraph(kind.advice);
}

void list_kinds() {
  Table table({"id", "severity", "what"});
  for (const WarningKind& kind : warning_kinds()) table.add({kind.id, name(kind.severity), kind.title});
  table.print("", {0, 1, 2});
}

int run(const Options& options) {
  if (!options.id.empty()) {
    const WarningKind& kind = kind_of(options.id);
    if (options.json) print_json(kind_json(kind));
    else print_kind(kind);
  } else if (options.json) {
    Json list = Json::array();
    for (const WarningKind& kind : warning_kinds()) list.push_back(kind_json(kind));
    print_json(list);
  } else {
    list_kinds();
  }
  return Exit::right;
}

}  // namespace

void add_explain(CLI::App& program, Command& command) {
  auto* app =
      program.add_subcommand("explain",
                             "Example: rotary explain RP003\n\n"
                             "Says what a warning of inspect means and what to do about it; without an id, lists them.");
  auto options = std::make_shared<Options>();
  app->add_option("ID", options->id, "RP001, …")->check(not_empty());
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
