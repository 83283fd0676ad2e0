#!/bin/sh
# size.sh LIBRARY CXX FOLDER: the shared library that the objects of a static one make is below 6 MB, symbols included.
# (The static library's objects are those of a release build; compiling them once more would tell no more.)
set -eu
mkdir -p "$3"
"$2" -shared -o "$3/librotary.so" -Wl,--whole-archive "$1" -Wl,--no-whole-archive -lzip -lpthread
bytes=$(wc -c < "$3/librotary.so")
echo "$bytes bytes"
[ "$bytes" -lt 6000000 ]
