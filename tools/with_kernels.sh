#!/bin/sh
# Runs a program with the arithmetic of another machine: tools/with_kernels.sh SETTING PROGRAM [ARGUMENT...]
#   haswell   a CPU with AVX2: OpenBLAS's kernels for it, ATen's and ours
#   narrow    ATen and ours without vector instructions of their own, the BLAS as it chooses
#   prescott  a CPU with SSE3 and no more: OpenBLAS's kernels for it, ATen and ours as in `narrow`
# Exit status 77 where this CPU cannot run it. A BLAS other than OpenBLAS keeps the kernels it chooses itself.
set -eu
setting=$1
shift

needs() {
  for flag in "$@"; do
    grep -qw "$flag" /proc/cpuinfo || { echo "skipped: '$setting' needs $flag, and this CPU lacks it"; exit 77; }
  done
}

case $setting in
  haswell)
    needs avx2 fma bmi2
    export OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2 ASR_KERNEL=avx2
    ;;
  narrow)
    export ATEN_CPU_CAPABILITY=default ASR_KERNEL=portable
    ;;
  prescott)
    needs pni
    export OPENBLAS_CORETYPE=Prescott ATEN_CPU_CAPABILITY=default ASR_KERNEL=portable
    ;;
  *)
    echo "unknown setting '$setting'; see the head of $0" >&2
    exit 2
    ;;
esac
exec "$@"
