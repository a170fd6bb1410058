#!/usr/bin/env bash
# One line on a run of all tests: what passed, what was skipped, and in how many seconds. It is green, with exit status
# 0, where nothing failed, something ran, no test missed its reference data, and it took at most MOST seconds.
# usage: tools/test_verdict.sh CTEST_OUTPUT LAST_TEST_LOG CTEST_STATUS SECONDS [MOST]
set -euo pipefail
output=$1 log=$2 status=$3 seconds=$4 most=${5:-300}

# Single tests: ctest counts a suite that skips some of them as passed. What ctest runs that is no test program has a
# name without dot and colon.
whole() { sed -n "s/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^.:]*[^.: ]\) *\.*[ *]*$1 .*/\1/p" "$output"; }
passed=$({ grep -ao '\[       OK \] [^ ]*\.[^ ,]*' "$log" | cut -c14- || true; whole Passed; } | sort -u)
skipped=$({ grep -ao '\[  SKIPPED \] [^ ]*\.[^ ,]*' "$log" | cut -c14- || true; whole Skipped; } | sort -u)
skipped=$(comm -13 <(echo "$passed") <(echo "$skipped"))  # what ran under any arithmetic was not skipped
count() { grep -c . <<< "$1" || true; }
summary="$(count "$passed") tests passed, $(count "$skipped") skipped, $seconds s"

missed=$(grep -a 'no reference data\|set ASR_TEST_DATA' "$log" | sort -u || true)
problems=()
if [ "$status" != 0 ]; then
  failed=$(sed -n '/tests FAILED:/,$p' "$output" | sed -n 's/^[[:space:]]*[0-9]* - \(.*\) ([A-Z][A-Za-z ]*).*$/\1/p' \
    | sort -u | paste -sd ';')
  problems+=("failed: ${failed:-ctest itself, with status $status}")
fi
[ -n "$passed" ] || problems+=("no test ran")
[ -z "$missed" ] || problems+=("reference data was not found: $(head -1 <<< "$missed")")
[ "$seconds" -le "$most" ] || problems+=("over the $most s that it may take")
if [ ${#problems[@]} = 0 ]; then
  echo "all green: $summary"
  exit
fi
printf -v list '; %s' "${problems[@]}"
echo "NOT green: $summary$list"
exit 1
