#!/bin/bash
# What including rotary/rotary.hpp costs a compiler, beside <vector> alone: the median of 15 runs each, in turns.
# The promise is 300 ms where <vector> takes 165; beyond that ratio this fails.
set -euo pipefail
cd "$(dirname "$0")/.."
include="-I include -I build/release/include"  # the second holds version.hpp

milliseconds() {
  local start=${EPOCHREALTIME/[.,]/}
  echo "#include <$1>" | ${CXX:-g++} -std=c++20 $include -fsyntax-only -x c++ -
  echo $(((${EPOCHREALTIME/[.,]/} - start) / 1000))
}

for _ in $(seq 15); do
  for header in vector rotary/rotary.hpp; do
    echo "$header $(milliseconds "$header")"
  done
done | sort -k1,1 -k2,2n | awk '
  { at[$1, ++runs[$1]] = $2 }
  END {
    for (h in runs) printf "%-18s %4d ms\n", h, median[h] = at[h, int((runs[h] + 1) / 2)]
    exit median["rotary/rotary.hpp"] * 165 > median["vector"] * 300
  }'
