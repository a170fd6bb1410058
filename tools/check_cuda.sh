#!/usr/bin/env bash
# Builds against the libtorch of a Python installation and runs every test, the spectral cases on the GPU too. The last
# line says whether all is green: no test failed or missed its reference data, in at most five minutes. Tests run one on
# each processor, with one thread each.
# usage: tools/check_cuda.sh [FOLDER_WITH_CASES]
set -euo pipefail
if [ $# -ge 1 ]; then
  [ -d "$1/goldens" ] || { echo "check_cuda: $1 is no folder with cases and goldens"; exit 2; }
  ASR_TEST_DATA=$(realpath "$1")  # tests run in folders of their own
  export ASR_TEST_DATA
fi
cd "$(dirname "$0")/.."
trap 'echo "check_cuda: NOT green: stopped in line $LINENO"' ERR
cmake --preset cuda --log-level=WARNING
time cmake --build --preset cuda
build-cuda/asr --version
log=build-cuda/check_cuda.log
start=$SECONDS
tests=0
OMP_NUM_THREADS=1 ctest --preset cuda -j "$(nproc)" 2>&1 | tee "$log" || tests=$?
took=$((SECONDS - start))
fixture=tests/fixtures/cases/sound-4x4/inputs.safetensors
cpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cpu | grep loss)
gpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cuda | grep loss)
echo "$gpu"
trap - ERR
if [ "$cpu" != "$gpu" ]; then
  echo "check_cuda: NOT green: CPU and GPU disagree: $cpu"
  exit 1
fi
verdict=0
line=$(tools/test_verdict.sh "$log" build-cuda/Testing/Temporary/LastTest.log "$tests" "$took") || verdict=$?
echo "check_cuda: $line; CPU and GPU agree"
exit $verdict
