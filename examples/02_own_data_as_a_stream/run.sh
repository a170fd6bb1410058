#!/usr/bin/env bash
# Own pictures and questions as a stream: checked, trained on task after task, compared, reported.
# usage: ./run.sh [OUT]   (default: a temporary folder; ASR names the program, default build/asr of this checkout)
set -euo pipefail
cd "$(dirname "$0")"
asr=${ASR:-../../build/asr}
out=${1:-$(mktemp -d)/own}

"$asr" doctor own.yaml --set "output_dir=$out"  # every row and picture, time and memory; nothing is trained
"$asr" run own.yaml --set "output_dir=$out"     # a folder a method, with scores, predictions and adapter
"$asr" compare "$out" --metric AP,AF            # who is better, and how sure one can be
echo "report: $out/report.html"
