#!/bin/sh
# symbols.sh static|shared LIBRARY: a library is a guest in somebody's process.
#   static   it calls nothing that ends the process, prints, or changes the process's settings, and nothing of Highway's library
#   shared   it shows only names of its own, so that it cannot clash with another copy of what it is built from
set -eu
case $1 in
  static)
    found=$(nm -uC "$2" | awk '/^ +U / { print $2 }' | sort -u | grep -E \
      '^(abort|_?exit|quick_exit|raise|kill|signal|sigaction|v?f?printf|puts|fputs|perror|setlocale|fesetround|fesetenv|putenv|setenv|fork|system|__assert_fail|std::(cout|cerr|clog)|hwy::.*)$' || true)
    ;;
  shared)
    # what the standard library's templates leave in every C++ library is shared between all of them on purpose
    found=$(nm -DC --defined-only "$2" | sed -E 's/^[0-9a-f]* . //; s/^(typeinfo|typeinfo name|vtable|guard variable) (for )?//' | sort -u |
      grep -vE '^(rotary::|std::|(.* )?std::|operator (new|delete)|_init$|_fini$)' || true)
    ;;
esac
[ -z "$found" ] || { echo "$2:"; echo "$found"; exit 1; }
