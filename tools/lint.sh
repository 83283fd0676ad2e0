#!/bin/bash
# The format of every C++ file, the direction of the includes, and clang-tidy's advice on the library and the program.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files --error-unmatch '*.cc' '*.h' '*.hpp' | xargs clang-format --dry-run -Werror
tests/rooms_test.sh

cmake --preset release > /dev/null  # for the compile commands
git ls-files --error-unmatch 'src/*.cc' 'cli/*.cc' |
  xargs -n 1 -P "$(tools/jobs.sh)" clang-tidy -p build/release --quiet --warnings-as-errors='*' \
    2> >(grep -v "warnings* generated" >&2)
