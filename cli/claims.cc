// rotary claims: what is said of rotation, checked.
#include "rotary/claims.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "output.h"

namespace rotary::cli {
namespace {

enum class Language { english, chinese };

struct Options {
  std::vector<std::string> ids;
  std::string fault;
  std::string plot;
  Language language = Language::english;
  bool list_faults = false;
  bool json = false;

  /// Words in the language asked for.
  std::string say(const char* english, const char* chinese) const {
    return language == Language::english ? english : chinese;
  }
};

// ---- JSON --------------------------------------------------------------------------------------------------------------

Json figures_json(const std::vector<ClaimFigure>& figures) {
  Json json = Json::object();
  for (const ClaimFigure& figure : figures) {
    if (figure.values.size() == 1) json[figure.name] = figure.values[0];
    else json[figure.name] = figure.values;
  }
  return json;
}

Json claim_json(const Claim& claim, const Options& options) {
  Json json;
  json["id"] = claim.id;
  json["group"] = claim.group;
  json["group_zh"] = claim.group_zh;
  json["kind"] = name(claim.kind);
  json["statement"] = claim.statement;
  json["statement_zh"] = claim.statement_zh;
  json["measures"] = claim.measures;
  json["measures_zh"] = claim.measures_zh;
  json["measured"] = claim.measured;
  json["comparison"] = name(claim.bound);
  json["expected"] = claim.expected;
  json["tolerance"] = claim.tolerance;
  json["ok"] = claim.ok();
  json["fault"] = options.fault.empty() ? Json() : Json(options.fault);
  json[claim.kind == ClaimKind::holds ? "figures" : "counter_example"] = figures_json(claim.figures);
  return json;
}

Json faults_json() {
  Json json = Json::array();
  for (const ClaimFault& fault : claim_faults()) {
    json.push_back({{"name", fault.name}, {"what", fault.what}, {"what_zh", fault.what_zh}});
  }
  return json;
}

// ---- in words ----------------------------------------------------------------------------------------------------------

/// Of a rounding error the size, one digit; of other numbers four.
std::string measured_text(const Claim& claim) {
  const bool rounding = claim.bound == ClaimBound::at_most && claim.expected < 1e-3 && claim.measured < 1e-3;
  return number(claim.measured, rounding ? 1 : 4);
}

std::string bound_text(const Claim& claim) {
  const std::string value = number(claim.expected);
  switch (claim.bound) {
    case ClaimBound::at_most: return "≤ " + value;
    case ClaimBound::at_least: return "≥ " + value;
    case ClaimBound::within: break;
  }
  return claim.tolerance == 0 ? "= " + value : value + " ± " + number(claim.tolerance);
}

std::string verdict_text(const Claim& claim, const Options& options) {
  if (claim.kind == ClaimKind::holds) {
    return claim.ok() ? options.say("holds", "成立") : yellow(options.say("BROKEN", "被破坏"));
  }
  return claim.ok() ? options.say("does not follow", "推不出")
                    : yellow(options.say("BROKEN: no counter-example", "被破坏：没有反例"));
}

void print_paragraph(const std::string& text, const std::string& lead) {
  for (const std::string& line : wrapped(text, line_width - lead.size())) std::cout << lead << line << '\n';
}

void print_figure(const ClaimFigure& figure) {
  std::string values;
  for (std::size_t i = 0; i < std::min<std::size_t>(figure.values.size(), 8); ++i) {
    values += (i == 0 ? "" : ", ") + number(figure.values[i], 4);
  }
  if (figure.values.size() > 8) values += ", … (" + std::to_string(figure.values.size()) + ")";
  std::cout << "        " << figure.name << ": " << values << '\n';
}

/// What is said of one claim, before they are set in columns.
struct Line {
  std::string id, measured, bound, verdict;
};

void print_lines(const std::vector<Claim>& claims, const Options& options) {
  std::vector<Line> lines;
  std::size_t id_width = 0, measured_width = 0, bound_width = 0;
  for (const Claim& claim : claims) {
    const Line& line =
        lines.emplace_back(Line{claim.id, measured_text(claim), bound_text(claim), verdict_text(claim, options)});
    id_width = std::max(id_width, line.id.size());
    measured_width = std::max(measured_width, line.measured.size());
    bound_width = std::max(bound_width, width(line.bound));
  }
  std::string_view group;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Claim& claim = claims[i];
    Line& line = lines[i];
    if (group != claim.group)
      std::cout << (group.empty() ? "" : "\n") << bold(options.say(claim.group, claim.group_zh)) << '\n';
    group = claim.group;
    line.id.resize(id_width, ' ');
    line.measured.insert(0, measured_width - line.measured.size(), ' ');
    line.bound.append(bound_width - width(line.bound), ' ');
    std::cout << "  " << line.id << "  " << line.measured << "  " << line.bound << "  " << line.verdict << '\n';
    print_paragraph(options.say(claim.statement, claim.statement_zh), "      ");
    if (options.ids.empty()) continue;
    print_paragraph(options.say(claim.measures, claim.measures_zh), "        ");
    for (const ClaimFigure& figure : claim.figures) print_figure(figure);
  }
}

void print_total(const std::vector<Claim>& claims, const Options& options) {
  std::int64_t hold = 0, do_not_follow = 0, broken = 0;
  for (const Claim& claim : claims) ++(!claim.ok() ? broken : claim.kind == ClaimKind::holds ? hold : do_not_follow);
  const std::size_t total = claims.size();
  std::cout << '\n';
  if (options.language == Language::english) {
    std::cout << total << (total == 1 ? " claim: " : " claims: ") << hold << (hold == 1 ? " holds, " : " hold, ")
              << do_not_follow << (do_not_follow == 1 ? " does not follow" : " do not follow");
    if (broken > 0) std::cout << ", " << broken << " broken";
  } else {
    std::cout << "共 " << total << " 条：" << hold << " 条成立，" << do_not_follow << " 条推不出";
    if (broken > 0) std::cout << "，" << broken << " 条被破坏";
  }
  std::cout << '\n';
}

void print_faults(const Options& options) {
  Table table({"fault", options.say("what it does", "做了什么")});
  for (const ClaimFault& fault : claim_faults()) table.add({fault.name, options.say(fault.what, fault.what_zh)});
  table.print("", {0, 1});
}

int run(const Options& options) {
  if (options.list_faults) {
    if (options.json) print_json(faults_json());
    else print_faults(options);
    return Exit::right;
  }
  ClaimsOptions what;
  for (const std::string& id : options.ids) what.ids.push_back(id.c_str());
  if (!options.fault.empty()) what.fault = options.fault.c_str();
  const std::vector<Claim> claims = check_claims(what);
  if (!options.plot.empty()) write_claims_svg(options.plot.c_str(), claims);
  if (options.json) {
    Json list = Json::array();
    for (const Claim& claim : claims) list.push_back(claim_json(claim, options));
    print_json(list);
  } else {
    print_lines(claims, options);
    print_total(claims, options);
  }
  const bool ok = std::all_of(claims.begin(), claims.end(), [](const Claim& claim) { return claim.ok(); });
  return ok ? Exit::right : Exit::differs;
}

}  // namespace

void add_claims(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "claims",
      "Example: rotary claims a1-b2-table --break rotate-after-scores\n\n"
      "Checks what is said of rotation, each statement by a small computation, with counter-examples to what does\n"
      "not follow. With ids: only those, with further numbers. Exit code: 0 all as stated, 1 something is broken.");
  auto options = std::make_shared<Options>();
  auto* ids = app->add_option("ID", options->ids, "keeps-norms, …")->check(not_empty());
  auto* fault =
      app->add_option("--break", options->fault, "Put something wrong under the computations: a name of --list-breaks")
          ->check(not_empty());
  add_choice(*app, "--lang", options->language, {{"en", Language::english}, {"zh", Language::chinese}}, "Language");
  auto* plot =
      app->add_option("--plot", options->plot, "Draw two of the counter-examples, too: .svg")->check(ends_in({".svg"}));
  app->add_flag("--list-breaks", options->list_faults, "List what --break takes")
      ->excludes(ids)
      ->excludes(fault)
      ->excludes(plot);
  app->add_flag("--json", options->json, "Print JSON, in both languages");
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
