// rotary: the command line. Data goes to stdout, notes and errors to stderr.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "base/edit_distance.h"
#include "command.h"
#include "output.h"
#include "rotary/error.hpp"
#include "rotary/isa.hpp"
#include "rotary/version.hpp"

namespace rotary::cli {
namespace {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return Exit::usage;
    case ErrorCode::invalid_file: return Exit::bad_file;
    case ErrorCode::unsupported: return Exit::not_supported;
    case ErrorCode::exhausted: break;  // of caches; the program makes none
  }
  return Exit::bad_file;
}

int complain(const std::string& sentence, int code) {
  std::cerr << "rotary: " << plain(sentence) << '\n';
  return code;
}

std::string version() {
  return std::string("rotary ") + ROTARY_VERSION + " (" + ROTARY_COMMIT + ", " + name(active_isa()) + ")";
}

/// CLI11 would say that all words were not expected.
void refuse_unknown_command(const CLI::App& program, const std::string& word) {
  if (word.starts_with('-')) return;
  std::string near;
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_name() == word) return;
    if (near.empty() && is_near(word, command->get_name())) near = command->get_name();
  }
  throw Error(
      ErrorCode::invalid_argument,
      ("unknown command " + word + "; " + (near.empty() ? "see rotary --help" : "did you mean " + near + "?")).c_str());
}

/// Whoever read standard output has what was wanted of it: rotary … | head.
bool reader_has_gone() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int run(int argc, char** argv) {
  CLI::App program(
      "Example: what a model's rotation is, and whether a capture of its attention agrees with it\n"
      "  rotary inspect config.json\n"
      "  rotary verify layer-00.safetensors --model config.json --layer 0\n\n"
      "Rotary position embeddings and the attention around them.\n"
      "Exit code: 0 right, 1 checked and differs, 2 wrong usage, 3 unreadable or invalid file, 4 unsupported.",
      "rotary");
  bool print_version = false;
  program.add_flag("--version", print_version, "Print version, commit and instruction set");
  program.require_subcommand(0, 1);

  Command command;
  add_inspect(program, command);
  add_compare(program, command);
  add_frequencies(program, command);
  add_plot(program, command);
  add_explain(program, command);
  add_rotate(program, command);
  add_attend(program, command);
  add_verify(program, command);
  add_precision(program, command);
  add_claims(program, command);

  if (argc > 1) refuse_unknown_command(program, argv[1]);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success&) {
    std::cout << program.help();  // of the subcommand, where one was named
    return Exit::right;
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), Exit::usage);
  }
  if (print_version) {
    std::cout << version() << '\n';
    return Exit::right;
  }
  if (!command) return complain("no command given; see rotary --help", Exit::usage);
  return command();
}

}  // namespace
}  // namespace rotary::cli

int main(int argc, char** argv) {
  using namespace rotary::cli;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes a write error, which is looked at below
  std::ios::sync_with_stdio(false);
  int code = Exit::bad_file;
  try {
    code = run(argc, argv);
  } catch (const rotary::Error& error) {
    code = complain(error.what(), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    code = complain("out of memory", Exit::bad_file);
  } catch (const std::exception& error) {
    code = complain(error.what(), Exit::bad_file);
  }
  if (!std::cout.flush() && !reader_has_gone()) return complain("cannot write to standard output", Exit::bad_file);
  return code;
}
