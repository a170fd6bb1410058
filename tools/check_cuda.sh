#!/usr/bin/env bash
# Builds against the libtorch of a Python installation and runs every test, the spectral cases on the GPU too. The last
# line says whether all is green. Tests run one on each processor, with one thread each.
# usage: tools/check_cuda.sh [FOLDER_WITH_CASES]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] && export ASR_TEST_DATA=$1
trap 'echo "check_cuda: NOT green: stopped in line $LINENO"' ERR
cmake --preset cuda --log-level=WARNING
time cmake --build --preset cuda
build-cuda/asr --version
log=build-cuda/check_cuda.log
start=$SECONDS
tests=0
OMP_NUM_THREADS=1 ctest --preset cuda -j "$(nproc)" 2>&1 | tee "$log" || tests=$?
summary="$(grep 'tests passed' "$log" | tail -1) in $((SECONDS - start)) s"
fixture=tests/fixtures/cases/sound-4x4/inputs.safetensors
cpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cpu | grep loss)
gpu=$(build-cuda/asr spectrum "$fixture" -o build-cuda/out.safetensors --device cuda | grep loss)
echo "$gpu"
trap - ERR
if [ "$cpu" != "$gpu" ]; then
  echo "check_cuda: NOT green: CPU and GPU disagree: $cpu"
  exit 1
fi
if [ "$tests" != 0 ]; then
  failed=$(sed -n '/tests FAILED:/,$p' "$log" | sed -n 's/^[[:space:]]*[0-9]* - \(.*\) ([A-Z][A-Za-z ]*).*$/\1/p' | sort -u | paste -sd ';')
  echo "check_cuda: NOT green: $summary; failed: $failed"
  exit 1
fi
echo "check_cuda: all green: $summary; CPU and GPU agree"
