#!/bin/sh
# clang-tidy with the checks of .clang-tidy over the folders without torch, or over the files that are named.
# Debian's clang 14 cannot parse the torch headers in C++20; minutes on two cores.
set -eu
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "tidy: clang-tidy is not installed (apt install clang-tidy)" >&2; exit 1; }
if [ $# -eq 0 ]; then
  set -- $(find src/base src/io src/metrics src/report src/skills src/streams -name '*.cpp' \
    ! -path 'src/skills/parser/*' ! -name 'video_ffmpeg.cpp')
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet "$@" -- -std=c++17 -Isrc 2>/dev/null' tidy
echo "tidy: $# files, nothing found"
