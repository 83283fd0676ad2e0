// What every subcommand shares. One file per subcommand: it adds its options to the program and says what to run.
#pragma once

#include <functional>

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

void add_inspect(CLI::App& program, Command& command);
void add_rotate(CLI::App& program, Command& command);
void add_attend(CLI::App& program, Command& command);
void add_verify(CLI::App& program, Command& command);
void add_precision(CLI::App& program, Command& command);

}  // namespace rotary::cli
