#!/bin/bash
# fuzz.sh SECONDS: runs every fuzz target of build/fuzz for so long, from the seeds in tests/data and the finds in
# fuzz/corpus. A find is left in build/fuzz/finds; put it into fuzz/corpus/TARGET with the mend.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?how many seconds for each target}

for list in build/fuzz/fuzz/*.seeds; do
  target=$(basename "$list" .seeds)
  work=build/fuzz/corpus/$target
  mkdir -p "$work" "build/fuzz/finds/$target"
  # Small files only: a fuzzer that carries megabytes gets nowhere.
  find $(cat "$list") "fuzz/corpus/$target" -type f -size -33k ! -name expected.json ! -name '*.md' ! -name 'rotated.*' |
    while read -r file; do cp -u "$file" "$work/$(echo "$file" | tr / _)"; done
  echo "== $target, $seconds s"
  build/fuzz/fuzz/"${target}_fuzz" -max_total_time="$seconds" -max_len=32768 -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/fuzz/finds/$target/" -print_final_stats=1 -print_funcs=0 -verbosity=0 "$work"
done
