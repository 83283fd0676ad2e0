#!/bin/bash
# Whether the rooms that hold kernels compile for 64-bit Arm (NEON). A syntax check with a cross compiler: nothing is run.
set -euo pipefail
cd "$(dirname "$0")/.."

headers=$(mktemp -d)  # the header-only libraries alone, without the rest of this machine's own headers
trap 'rm -rf "$headers"' EXIT
ln -s "$(pkg-config --variable=includedir libhwy)/hwy" "$headers/hwy"

git ls-files src/base/'*.cc' src/rotation/'*.cc' src/attention/'*.cc' src/kernels/'*.cc' src/reference/'*.cc' |
  xargs -n 1 -P "$(tools/jobs.sh)" aarch64-linux-gnu-g++ -std=c++20 -O1 -Wall -Wextra -Werror -fsyntax-only \
    -I include -I src -I build/release/include -isystem "$headers"
