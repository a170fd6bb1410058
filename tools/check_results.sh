#!/usr/bin/env bash
# The tables of docs/results.md are those that the program prints from results/: fails with the lines that differ.
# usage: tools/check_results.sh [PROGRAM]   (default build/asr)
set -euo pipefail
asr=$(realpath "${1:-build/asr}")
cd "$(dirname "$0")/.."

# Rows of the tables under "## STREAM, BACKBONE", with that title before them.
rows() { awk '/^## /{inside = /^## world-/} inside && (/^## / || /^\|/)' "$@"; }

printed=$(for table in results/world-*.csv; do "$asr" compare "$table" --format markdown --metric AP,AF,Avg,MFT; done | rows)
diff <(rows docs/results.md) <(echo "$printed") && echo "docs/results.md: $(grep -c '^|' <<<"$printed") rows as printed"
