#!/usr/bin/env bash
# Every method has a page docs/methods/NAME.md whose generated parts are what the program prints: options and what is
# kept ('asr methods NAME --markdown'), and its rows of the measured runs. Fails with the lines that differ; with
# --write it writes them.
# usage: tools/check_method_pages.sh [PROGRAM] [--write]   (default build/asr)
set -euo pipefail
asr=$(realpath "${1:-build/asr}")
write=${2:-}
cd "$(dirname "$0")/.."
compare="compare results/world-hue.csv:methods results/world-rule.csv:methods results/world-10.csv:methods --protocol configs/protocol_methods.yaml"
compare+=" --format markdown --metric AP,AF"
printed=$("$asr" $compare)

# A row a stream: scores of the first table, settings and costs of the last.
measured() {
  awk -F' *[|] *' -v method="$1" '
    /^## / { setting = substr($0, 4); part = "scores" }
    /^### / { part = /chosen/ ? "costs" : "differences" }
    { label = $2; sub(/ †$/, "", label) }
    label != method || setting == "" { next }
    part == "scores" { order[++rows] = setting; scores[setting] = $3 " | " $4 " | " $5 }
    part == "costs" { costs[setting] = $3 " | " $4 " | " $6 " | " $7 }
    END {
      if (rows == 0) { print "Not measured yet."; exit }
      print "| stream, backbone, split | runs | AP | AF | rate | strength | trained | kept |"
      print "|---|---:|---:|---:|---:|---:|---:|---:|"
      for (i = 1; i <= rows; ++i) print "| " order[i] " | " scores[order[i]] " | " costs[order[i]] " |"
      print ""
      print "Printed by"
      print ""
      print "    build/asr '"${compare/ --protocol/ \\\\\"; print \"      --protocol}"'"
    }' <<<"$printed"
}

# A page with its generated parts as they should be.
page() {
  local name=$1 line inside=
  while IFS= read -r line; do
    [[ $line == "<!-- end -->" ]] && inside=
    [ "$inside" ] || printf '%s\n' "$line"
    case $line in
      "<!-- printed: asr methods $name -->") "$asr" methods "$name" --markdown && inside=1 ;;
      "<!-- printed: measured -->") measured "$name" && inside=1 ;;
    esac
  done <"docs/methods/$name.md"
}

wrong=0 count=0
for name in $("$asr" methods | awk '{ print $1 }'); do
  file=docs/methods/$name.md
  if [ ! -f "$file" ]; then
    echo "$file is missing: every method has a page (docs/methods/README.md says how to make one)"
    wrong=1
    continue
  fi
  if [ "$(grep -c -e "^<!-- printed: asr methods $name -->$" -e '^<!-- printed: measured -->$' "$file")" != 2 ]; then
    echo "$file: needs the lines '<!-- printed: asr methods $name -->' and '<!-- printed: measured -->'," \
      "each with '<!-- end -->' after it"
    wrong=1
    continue
  fi
  text=$(page "$name")
  if [ "$write" = --write ]; then
    printf '%s\n' "$text" >"$file"
  elif ! diff "$file" <(printf '%s\n' "$text"); then
    echo "$file differs from what the program prints; tools/check_method_pages.sh PROGRAM --write writes it"
    wrong=1
  fi
  grep -q "]($name.md)" docs/methods/README.md || { echo "docs/methods/README.md does not name $name.md"; wrong=1; }
  count=$((count + 1))
done
[ "$wrong" = 0 ] && echo "docs/methods: $count pages as printed"
exit $wrong
