#!/bin/sh
# pkg_config.sh PREFIX CXX FOLDER: builds the consumer against the rotary installed under PREFIX, in FOLDER, and runs it.
set -eu
pc=$(find "$1" -name rotary.pc)
export PKG_CONFIG_PATH="${pc%/*}"
mkdir -p "$3"
$2 -std=c++20 "$(dirname "$0")/consumer.cc" $(pkg-config --cflags --libs rotary) -o "$3/consumer"
cd "$3"
LD_LIBRARY_PATH="$(pkg-config --variable=libdir rotary)" ./consumer
