#!/bin/bash
# Whether clang compiles everything without a warning: the library and the program whole, what only uses them (tests,
# benchmarks) as far as warnings go, without code. Nothing is run, so nothing is optimised.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -S . -B build/clang -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_CXX_COMPILER=clang++ \
  -DROTARY_WERROR=ON -DROTARY_TESTS=ON -DROTARY_PACKAGE_TESTS=OFF -DROTARY_BENCH=ON
cmake --build build/clang -j "$(tools/jobs.sh)" --target rotary rotary_program

jobs=$(tools/jobs.sh)
cd build/clang
ninja -t commands | grep -E ' -c [^ ]*/(tests|bench|fuzz|examples)/' |
  sed -E 's/ -MD -MT [^ ]+ -MF [^ ]+//; s/ -o [^ ]+ -c / -fsyntax-only /' > checks
[ "$(wc -l < checks)" -gt 50 ]  # were the commands of another form, nothing would be checked
echo "$(wc -l < checks) files for their warnings"
xargs -d '\n' -n 1 -P "$jobs" sh -c < checks
