#!/usr/bin/env bash
# One of the paper's two tables: every method of configs/paper/ on every benchmark of it, then the table with the
# paper's numbers beside ours. What is there already goes on where it stopped. Streams must be prepared (docs/runbook.md).
# usage: tools/paper_table.sh vqa | cit OUT BACKBONE.yaml [SETTINGS FOR asr run...]
#   e.g. tools/paper_table.sh cit out/cit configs/backbones/llava-1.5-7b.yaml --set model_name_or_path=DIR
# VQACL's novel compositions take streams of their own: for data/vqacl, data/vqacl-G1 and so on, from
# 'asr prepare vqacl --held-out G1 -o data/vqacl-G1'. Those that are there run too, the others are named.
# ASR: the program (build/asr). DATA: the folder of the prepared streams (data). SEEDS: [0,1,2]. PROCESSES: 1. PRESET=native: each method that has its authors' settings
# with them, in a folder of its own; the others have none and are left out. PLAN=1: 'asr doctor --assume' of every setting instead of runs.
set -euo pipefail
asr=$(realpath "${ASR:-build/asr}")
table=${1:?vqa or cit}
out=${2:?folder for the runs}
backbone=$(realpath "${3:?configs/backbones/NAME.yaml}")
shift 3
cd "$(dirname "$0")/.."
batch_of() { awk -v key="$1:" '$1 == key { print $2 }' "$backbone"; }
case $table in
  vqa) settings="vqav2-10:16 vqacl:80 nextqa:80 clt-vqa:80" ;;
  cit) settings="coin:16 ucit:96" ;;
  *) echo "paper_table: '$table' is no table; use vqa or cit" >&2 && exit 2 ;;
esac
methods_of() { sed -n 's/^method: \[\(.*\)\]$/\1/p' "configs/paper/$1.yaml" | tr -d ','; }

native_keys() { "$asr" methods "$1" | awk '/^under preset: native/ { on = 1; next } !NF { on = 0 } on { print $1 }'; }
path_of() { awk '$1 == "path:" { print $2 }' "configs/paper/$1.yaml" | sed "s|^data/|${DATA:-data}/|"; }
# What VQACL holds out in a setting: nothing, and then each group that a stream was prepared for.
held_out_of() {
  local groups= group
  case $1 in
    vqacl) groups="G1 G2 G3 G4 G5" ;;
    nextqa) groups="G0 G1 G2 G3 G4" ;;
  esac
  echo none
  for group in $groups; do
    if [ -d "$(path_of "$1")-$group" ]; then
      echo "$group"
    else
      echo "paper_table: $(path_of "$1")-$group is not there, so $1 is not run with $group held out" >&2
    fi
  done
}

kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT

# A file without the options that a method's authors set: a preset gives values only to what no file names.
without_native() {
  local pattern=$(native_keys "$2" | sed 's/\./\\./g' | paste -sd '|')
  sed -E "/^($pattern):/d" "$1" > "$kept/$(basename "$1")"
  echo "$kept/$(basename "$1")"
}

# One folder, for one held-out group, and for one method with its authors' settings where it is named; further arguments
# are settings.
run() {
  local setting=${1%:*} step=${1#*:} folder=$2 method=$3 path=$(path_of "${1%:*}") resume=
  [ "$4" = none ] || { folder+=-$4; path+=-$4; }
  shift 4
  folders+=("$folder")
  local each=$(batch_of per_device_train_batch_size)
  local files=("configs/paper/$setting.yaml" "$backbone")
  local options=(--set "output_dir=$folder" --set "seeds=${SEEDS:-[0,1,2]}" --set "stream.path=$path")
  if [ "$method" ]; then
    files=("$(without_native "${files[0]}" "$method")" "$(without_native "$backbone" "$method")")
    options+=(--set "method=$method" --set preset=native)
  else
    options+=(--set "gradient_accumulation_steps=$((step / each))")
  fi
  if [ "${PLAN:-}" ]; then
    "$asr" doctor "${files[@]}" "${options[@]}" "$@" --assume || true  # it says what fails; the other settings are planned too
    return
  fi
  [ -d "$folder" ] && resume=--resume
  "$asr" run "${files[@]}" "${options[@]}" "$@" --processes "${PROCESSES:-1}" $resume
}

folders=()
for entry in $settings; do
  setting=${entry%:*}
  groups=$(held_out_of "$setting")
  if [ "${PRESET:-asr-paper}" = native ]; then
    for method in $(methods_of "$setting"); do
      "$asr" methods "$method" | grep -q 'under preset: native' || continue
      for group in $groups; do
        run "$entry" "$out/$setting-$method" "$method" "$group" "$@"
      done
    done
  else
    for group in $groups; do
      run "$entry" "$out/$setting" "" "$group" "$@"
    done
  fi
done
[ "${PLAN:-}" ] || "$asr" compare "${folders[@]}" --layout "paper-$table" --format markdown
