#!/bin/bash
# console.sh PROGRAM PAGE...: every command in the console blocks of these pages prints what stands there. A line "…" stands
# for lines that are left out. Runs in the repository's root.
set -u
program=$1
shift
rotary() { "$program" "$@"; }

checked=0 wrong=0
check() {  # check PAGE COMMAND EXPECTED
  local printed pattern
  printed=$(eval "$2" 2>&1)
  # Quoted text matches itself; "…" matches anything.
  pattern=$(printf '%s' "$3" | sed 's/[][\\*?]/\\&/g; s/^…$/*/')
  # shellcheck disable=SC2053
  if [[ $printed != $pattern ]]; then
    printf '%s: %s\nmust print:\n%s\nprints:\n%s\n' "$1" "$2" "$3" "$printed"
    wrong=1
  fi
  checked=$((checked + 1))
}

for page; do
  inside=0 command="" expected=""
  while IFS= read -r line; do
    if [ "$line" = '```console' ]; then
      inside=1
    elif [ $inside -eq 1 ] && { [ "$line" = '```' ] || [[ $line == '$ '* ]]; }; then
      [ -n "$command" ] && check "$page" "$command" "${expected%$'\n'}"
      command="" expected=""
      if [ "$line" = '```' ]; then inside=0; else command=${line#'$ '}; fi
    elif [ $inside -eq 1 ]; then
      expected+=$line$'\n'
    fi
  done < "$page"
done
echo "$checked commands"
[ $wrong -eq 0 ] && [ $checked -gt 0 ]
