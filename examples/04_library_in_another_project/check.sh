#!/usr/bin/env bash
# Installs a finished build into a temporary prefix, builds this project against it and runs it; then configures it on
# the checkout, builds the program that needs no torch there, and runs it.
# usage: check.sh BUILD   (the build folder of asr)
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -G Ninja -S . -B "$work/found" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/found.log"
cmake --build "$work/found" >>"$work/found.log" || { cat "$work/found.log"; exit 1; }
"$work/found/forgetting" matrix.csv
"$work/found/spectrum" | sed -n 1,3p
# The installed program finds its assets, whatever folder it is called from.
(cd / && unset ASR_ASSETS && "$work/prefix/bin/asr" skills "what color is it?" | sed -n 1,2p)

cmake -G Ninja -S . -B "$work/added" -DCMAKE_BUILD_TYPE=Debug -DASR_CHECKOUT="$(realpath ../..)" \
  -DASR_TORCH_FROM_PYTHON="${ASR_TORCH_FROM_PYTHON:-}" >"$work/added.log"
cmake --build "$work/added" --target forgetting >>"$work/added.log" || { cat "$work/added.log"; exit 1; }
"$work/added/forgetting" matrix.csv
echo "find_package and add_subdirectory: both work"
