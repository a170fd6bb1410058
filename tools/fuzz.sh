#!/usr/bin/env bash
# Runs one fuzzer for a while on the seeds in tests/fuzz/seeds/NAME; what it finds stays in the build folder.
# usage: tools/fuzz.sh BUILD_DIR NAME SECONDS
set -euo pipefail
build=$1 name=$2 seconds=$3
corpus=$build/corpus/$name
mkdir -p "$corpus" "$build/findings"
[ -d "tests/fuzz/seeds/$name" ] && cp -n tests/fuzz/seeds/"$name"/* "$corpus"/
echo "fuzz: $name for $seconds s"
status=0
"$build/tests/fuzz/fuzz_$name" "$corpus" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
  -artifact_prefix="$build/findings/$name-" -print_final_stats=1 >"$build/$name.log" 2>&1 || status=$?
grep -E 'ERROR|SUMMARY|DONE|number_of_executed_units|Test unit written|runtime error' "$build/$name.log" || true
[ "$status" -eq 0 ] || echo "fuzz: $name failed; the whole log is $build/$name.log" >&2
exit "$status"
