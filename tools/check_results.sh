#!/usr/bin/env bash
# The tables of docs/results*.md are those of results/, and so are its pictures: fails with the lines that differ. With
# --print it prints the tables of docs/results_at_one_rate.md, with --write it writes the pages that are all output and
# the pictures.
# usage: tools/check_results.sh [PROGRAM] [--print | --write]   (default build/asr)
set -euo pipefail
asr=$(realpath "${1:-build/asr}")
cd "$(dirname "$0")/.."

# Three tables (AP, differences in AP, AF), a row a label, a column a stream and backbone.
tables() {
  "$asr" compare results/world-10.csv:one-rate results/world-cit.csv:one-rate --format csv --metric AP,AF | awk -F, '
    NR == 1 { next }
    {
      setting = $1 ", " $2; label = $3; key = $5 SUBSEP label SUBSEP setting
      if (!(setting in seen)) { seen[setting] = 1; settings[++columns] = setting }
      if (!(label in known)) { known[label] = 1; labels[++rows] = label; mark[label] = $4 == 0 ? " †" : "" }
      if ($7 != "") value[key] = $8 == "" ? sprintf("%.1f", $7) : sprintf("%.1f ± %.1f", $7, $8)
      if ($13 != "") change[key] = sprintf("%+.1f%s (%.1f..%.1f)", $13, $17 == 1 ? "\\*" : "", $14, $15)
    }
    function row(metric, label, from,   i, line, any, key, text) {
      line = "| " label mark[label] " |"; any = 0
      for (i = 1; i <= columns; ++i) {
        key = metric SUBSEP label SUBSEP settings[i]
        text = from == "change" ? change[key] : value[key]
        any += text != ""
        line = line " " text " |"
      }
      if (any) print line
    }
    function table(metric, from,   i, first) {
      line = "| label |"; rule = "|---|"
      for (i = 1; i <= columns; ++i) { line = line " " settings[i] " |"; rule = rule "---:|" }
      print line; print rule
      split("zero-shot vanilla joint ewc er lwf asr asr+ewc asr+er asr-tuned", first, " ")
      for (i = 1; i in first; ++i) { placed[first[i]] = 1; row(metric, first[i], from) }
      for (i = 1; i <= rows; ++i) if (!(labels[i] in placed)) row(metric, labels[i], from)
    }
    END { table("AP", "value"); table("AP", "change"); table("AF", "value") }'
}

# A page that is all output. usage: protocol_page TITLE PROTOCOL FILE...
protocol_page() {
  local title=$1 protocol=$2
  shift 2
  local command="asr compare $* --protocol $protocol --format markdown --metric AP,AF,MFT"
  echo "# $title"
  echo
  echo "What the program prints, all of it; [results.md](results.md) says what it means. The command:"
  echo
  echo "    $(sed 's/ results/ \\\n      results/4; s/ results/ \\\n      results/7; s/ --protocol/ \\\n      --protocol/; s/ --format/ \\\n      --format/' <<<"build/$command")"
  echo
  "$asr" ${command#asr } | folded
}
# The paper's two tables in our measurement, the paper's own numbers beside them. usage: paper_page TITLE FILE...
paper_page() {
  local title=$1 layout
  shift
  echo "# $title"
  echo
  echo "Rows and numbers of the paper beside what was measured here, on the built-in world; [results.md](results.md) says"
  echo "how. What the program prints, all of it."
  for layout in paper-vqa paper-cit; do
    local command="asr compare $* --layout $layout --format markdown"
    echo
    echo "    $(sed 's/ --layout/ \\\n      --layout/' <<<"build/$command")"
    echo
    "$asr" ${command#asr } | folded
  done
}
# Whether streams measure forgetting, judged from the runs behind the other pages. usage: admission_page TITLE FILE...
admission_page() {
  local title=$1
  shift
  echo "# $title"
  echo
  echo "What the program prints, all of it; [protocol.md](protocol.md#which-streams-measure-forgetting) says what is asked of"
  echo "a stream, [results.md](results.md) what it means. The command:"
  echo
  echo "    build/asr admit --runs $*" | sed 's/ results/ \\\n      results/3; s/ results/ \\\n      results/5; s/ results/ \\\n      results/7'
  echo
  "$asr" admit --runs "$@" | while IFS= read -r line; do
    if [[ $line == "note: "* ]]; then fold -s -w 108 <<<"$line" | sed '2,$s/^/  /'; else echo "$line"; fi
  done | sed 's/ *$//; s/^\(.\)/    \1/'
}
# Prose is folded, tables are not.
folded() {
  while IFS= read -r line; do
    if [[ $line == "- "* ]]; then fold -s -w 116 <<<"$line" | sed 's/ *$//; 2,$s/^/  /'; else echo "$line"; fi
  done
}
# usage: each_page ACTION: calls it with the name of every such page, what makes it, and what that takes.
each_page() {
  "$1" results_protocol protocol_page "Under the protocol: five streams, and the primary contrasts" configs/protocol.yaml \
    results/world-hue.csv:full results/world-rule.csv:full results/world-code.csv:full results/world-cue.csv:faint \
    results/world-blur.csv:faint results/world-cue.csv:keys results/world-blur.csv:keys
  "$1" results_methods protocol_page "Every method: world-hue, world-rule and world-10" configs/protocol_methods.yaml \
    results/world-hue.csv:methods results/world-rule.csv:methods results/world-10.csv:methods
  "$1" results_faint protocol_page "Faint cues and blurred stages: world-cue and world-blur" configs/protocol_faint.yaml \
    results/world-cue.csv:faint results/world-blur.csv:faint
  "$1" results_thing protocol_page "A cue that no word tells: world-thing" configs/protocol_thing.yaml \
    results/world-thing.csv:thing
  "$1" results_small protocol_page "Fewer points of search: world-code" configs/protocol_small.yaml \
    results/world-code.csv:small
  "$1" results_cit protocol_page "Eight instruction tasks: world-cit" configs/protocol_small.yaml \
    results/world-cit.csv:small
  "$1" results_capacity protocol_page "Is it the room? Other ranks on world-hue" configs/protocol_capacity.yaml \
    results/world-hue.csv:capacity
  "$1" results_admitted admission_page "Which streams measure forgetting" \
    results/world-hue.csv:full results/world-rule.csv:full results/world-code.csv:full results/world-cue.csv:faint \
    results/world-blur.csv:faint results/world-thing.csv:thing results/world-10.csv:methods results/world-cit.csv:small
  "$1" results_paper paper_page "The paper's tables, in our measurement" \
    results/world-hue.csv:methods results/world-rule.csv:methods results/world-10.csv:methods results/world-sc.csv:novel
}
# AP against MFT of every point of the search, a picture a stream. usage: braking_pictures FOLDER
braking_pictures() {
  local drawn
  drawn=$(mktemp -d)
  "$asr" report results/world-hue.csv:full results/world-rule.csv:full -o "$drawn/page.html" --figures "$drawn" >/dev/null
  for stream in world-hue world-rule; do
    cp "$drawn/braking-$stream-tiny-s-split-tune-ap-against-mft-$stream-tiny-s.svg" "$1/braking-$stream.svg"
  done
  rm -r "$drawn"
}
write_page() {
  "${@:2}" >"docs/$1.md"
}
check_page() {
  diff "docs/$1.md" <("${@:2}")
  echo "docs/$1.md: as printed"
}

printed=$(tables)
if [ "${2:-}" = --print ]; then
  echo "$printed"
  exit
fi
if [ "${2:-}" = --write ]; then
  each_page write_page
  tools/page_tables.sh "$asr" docs/results.md docs/results_controls.md --write
  braking_pictures docs/pictures
  exit
fi
page=docs/results_at_one_rate.md
documented=$(awk '/^## /{inside = /^## (AP|Difference|Forgetting)/} inside && /^\|/' $page)
diff <(echo "$documented") <(echo "$printed")
echo "$page: $(wc -l <<<"$printed") rows as printed"
each_page check_page
tools/page_tables.sh "$asr" docs/results.md docs/results_controls.md
drawn=$(mktemp -d)
trap 'rm -r "$drawn"' EXIT
braking_pictures "$drawn"
for picture in "$drawn"/*.svg; do
  cmp "$picture" "docs/pictures/${picture##*/}"
  echo "docs/pictures/${picture##*/}: as drawn"
done
