#!/usr/bin/env bash
# Installs what the build needs on Debian or Ubuntu; does nothing when all of it is there.
# Elsewhere it says what to install. Called by the Makefile, so `make` alone sets everything up.
# protobuf-compiler and clang-format are for tests alone: one reads event files with protoc, one looks at the format.
# usage: tools/setup.sh [build|fuzz|ffmpeg|browser]
set -euo pipefail

packages=(g++ cmake ninja-build ccache lld pkg-config
  libtorch-dev libopenblas-dev libgloo-dev
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libfmt-dev libspdlog-dev
  libjpeg-dev libpng-dev zlib1g-dev libgtest-dev libbenchmark-dev wordnet-base protobuf-compiler clang-format)
case "${1:-build}" in
  build) ;;
  fuzz) packages+=(clang libclang-rt-14-dev) ;;
  ffmpeg) packages+=(libavformat-dev libavcodec-dev libavutil-dev libswscale-dev) ;;
  browser) packages+=(chromium) ;;
  *) echo "setup: unknown set '$1'; use build, fuzz, ffmpeg or browser" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  echo "setup: then run 'cmake --preset release && cmake --build --preset release' directly" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
# A newer libtorch from elsewhere replaces the distribution's.
if [ -n "${CMAKE_PREFIX_PATH:-}${ASR_TORCH_FROM_PYTHON:-}" ]; then
  kept=()
  for package in "${missing[@]}"; do
    case "$package" in libtorch-dev | libgloo-dev | ccache | lld) ;; *) kept+=("$package") ;; esac
  done
  missing=("${kept[@]}")
fi
[ "${#missing[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "setup: missing packages, and neither root nor sudo; ask an administrator for: ${missing[*]}" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
