#!/usr/bin/env bash
# Trains the new method for a few steps on two tasks of the built-in world and shows that its phase took place.
# usage: check.sh PROGRAM   (build/examples/example_03_new_method)
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

"$program" methods | grep mixed
"$program" run configs/world-10.yaml --set method=mixed --set mixed.epochs=1 --set stream.tasks=2 --set stream.train=32 \
  --set stream.val=8 --set analysis.samples=8 --set "output_dir=$out/run" 2>&1
grep -c '"group":"mix"' "$out/run/mixed/log.jsonl" | sed 's/$/ steps of the phase mix/'
"$program" audit "$out/run/mixed"
