#!/usr/bin/env bash
# The runs behind docs/results_at_one_rate.md: every method, ablation and design variant, and ASR beside EWC and ER, on both built-in backbones and two streams,
# over five seeds. What is complete in OUT or in results/ is left alone, so the work can go on where it stopped. At the end the
# finished runs are added to results/STREAM.csv, as the series one-rate.
# usage: tools/run_results.sh [OUT] [DEVICE] [JOBS] [SECONDS]
#   OUT      where the runs go (default out/results)       DEVICE  cpu or cuda (default cpu)
#   JOBS     runs at a time (default 1)                    SECONDS stop after this long; 0: never (default)
# Environment: ASR (the program, default build/asr), ONLY (a pattern of stream/backbone/label to run)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/results} device=${2:-cpu} jobs=${3:-1} seconds=${4:-0}
asr=${ASR:-build/asr}
export asr out device

baselines="vanilla asr er ewc lwf joint"
ablations="no-spectrum no-skill no-angular no-confidence no-geometry"
variants="raw-attention radial-only angular-only task-wise mean-only hard-skill oracle-skill fixed-weight preset-paper preset-reference"
compositions="asr+ewc asr+er"

list() {
  for group in "$baselines" "$ablations" "$variants" "$compositions"; do
    for stream in world-10 world-cit; do
      for backbone in tiny-S tiny_cross-S; do
        for label in $group; do echo "$stream $backbone $label"; done
      done
    done
  done
}

run_one() {
  read -r stream backbone label <<<"$1"
  local config=() method=$label
  if [ -f "configs/ablation/$label.yaml" ]; then config=("configs/ablation/$label.yaml") method=asr; fi
  local folder=$out/$stream/$backbone/$label seeds=() name=$label
  [ "$method" = "$label" ] || name=asr-$label
  for seed in 0 1 2 3 4; do
    grep -qs "^one-rate,$stream,$backbone,,$name,0,$seed," "results/$stream.csv" || seeds+=("$seed")
  done
  [ "${#seeds[@]}" -gt 0 ] || { echo "in results/ already: $1"; return; }
  mkdir -p "$(dirname "$folder")"
  "$asr" --threads "${THREADS:-2}" run "configs/$stream.yaml" "${config[@]}" --resume --set "method=$method" \
    --set "model_name_or_path=$backbone" --set "output_dir=$folder" --set "seeds=[$(IFS=,; echo "${seeds[*]}")]" \
    --set stream.seed=0 --set "device=$device" --set save_minutes=0 --set analysis.overlays=0 --set per_device_eval_batch_size=300 \
    >"$folder.log" 2>&1 && echo "done $1" || { echo "FAILED $1: $(tail -n 1 "$folder.log")"; }
}
export -f run_one

limit=(); [ "$seconds" -gt 0 ] && limit=(timeout "$seconds")
list | grep -E "${ONLY:-.}" | "${limit[@]}" xargs -P "$jobs" -d '\n' -I{} bash -c 'run_one "{}"' || true

shopt -s nullglob
for stream in world-10 world-cit; do
  runs=("$out/$stream"/*/*/)
  [ "${#runs[@]}" -eq 0 ] || "$asr" compare "${runs[@]}" --metric AP --csv "results/$stream.csv:one-rate" >/dev/null
done
