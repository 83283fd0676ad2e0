#!/bin/sh
# setup.sh GROUP...: sees what the groups (build, bench, peers, lint, clang, fuzz, arm) need and installs what is missing: Debian
# and Ubuntu packages. On other systems it names what to install. Silent and quick when all is there.
set -eu

# one line each: group, Debian package, how to see that it is there
needs='
build  git                 command -v git
build  g++                 command -v c++
build  cmake               command -v cmake
build  ninja-build         command -v ninja
build  pkg-config          command -v pkg-config
build  libhwy-dev          pkg-config --exists libhwy
build  nlohmann-json3-dev  pkg-config --exists nlohmann_json
build  libzip-dev          pkg-config --exists libzip
build  libcli11-dev        pkg-config --exists CLI11
build  libgtest-dev        pkg-config --exists gtest
build  librapidcheck-dev   ls /usr/include/rapidcheck.h
bench  libbenchmark-dev    pkg-config --exists benchmark
bench  python3             command -v python3
peers  python3-venv        python3 -m ensurepip --version
lint   clang-format        command -v clang-format
lint   clang-tidy          command -v clang-tidy
clang  clang               command -v clang++
fuzz   clang               command -v clang++
fuzz   libclang-rt-dev     ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
arm    g++-aarch64-linux-gnu  command -v aarch64-linux-gnu-g++
'

missing() {
  echo "$needs" | while read -r group package probe; do
    case " $* " in *" $group "*) $probe > /dev/null 2>&1 || printf '%s ' "$package" ;; esac
  done
}

packages=$(missing "$@")
if [ -n "$packages" ]; then
  if ! command -v apt-get > /dev/null; then
    echo "rotary needs these Debian packages, or what they are called here; please install them and try again:" >&2
    echo "  $packages" >&2
    exit 1
  fi
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo"
    if ! command -v sudo > /dev/null; then
      echo "please install as root, and try again:  apt-get install $packages" >&2
      exit 1
    fi
  fi
  echo "installing: $packages"
  $as_root apt-get -q -o Acquire::Retries=3 update
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=3 install --no-install-recommends $packages
  packages=$(missing "$@")
  if [ -n "$packages" ]; then
    echo "still missing after the installation: $packages" >&2
    exit 1
  fi
fi

wanted=3.25
version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if [ "$(printf '%s\n' "$wanted" "$version" | sort -V | head -n 1)" != "$wanted" ]; then
  echo "rotary needs cmake $wanted or later, and this one is $version; a newer one is at https://cmake.org/download" >&2
  exit 1
fi
