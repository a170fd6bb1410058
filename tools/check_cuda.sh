#!/usr/bin/env bash
# Builds against the libtorch of a Python installation and runs every test, the spectral cases on the GPU too.
# usage: tools/check_cuda.sh [FOLDER_WITH_CASES]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] && export ASR_TEST_DATA=$1
cmake --preset cuda --log-level=WARNING
time cmake --build --preset cuda
build-cuda/asr --version
ctest --preset cuda -j 8
fixture=tests/fixtures/cases/sound-4x4/inputs.safetensors
cpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cpu | grep loss)
gpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cuda | grep loss)
echo "$gpu"
[ "$cpu" = "$gpu" ] || { echo "check_cuda: CPU and GPU disagree: $cpu" >&2; exit 1; }
