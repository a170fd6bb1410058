#!/usr/bin/env bash
# The short tables of a page are what `asr compare` says of the runs they name: fails with the lines that differ, with
# --write it writes them. A table stands between a comment and <!-- end -->:
#   <!-- table: TABLE OF RUNS...
#   columns: AP AF MFT, scores of every setting; "against LABEL", its difference in AP; kept, passes, once for all
#   rows: LABEL; LABEL = how the row is called; ...
#   settings: STREAM/BACKBONE ..., where their order should be another than by name; optional -->
# or between such a comment of contrasts and <!-- end -->:
#   <!-- contrasts: TABLE OF RUNS...
#   protocol: FILE, which names them -->
# usage: tools/page_tables.sh PROGRAM PAGE... [--write]
set -euo pipefail
asr=$(realpath "$1")
shift
write=
pages=()
for argument in "$@"; do
  if [ "$argument" = --write ]; then write=1; else pages+=("$argument"); fi
done
cd "$(dirname "$0")/.."

# usage: table FILES COLUMNS ROWS SETTINGS
table() {
  local how=()
  [[ $2 =~ against\ ([^;]+) ]] && how+=(--against "${BASH_REMATCH[1]}")
  # With a protocol intervals of differences are Student's t, and the points of its search are left out.
  [[ $3 == *:learning_rate=* ]] || how+=(--protocol configs/protocol.yaml)
  # shellcheck disable=SC2086
  "$asr" compare $1 --format csv --metric AP,AF,Avg,MFT,AP_novel,AF_novel "${how[@]}" |
    awk -F, -v columns="$2" -v rows="$3" -v wanted="$4" '
    function trimmed(text) { gsub(/^ +| +$/, "", text); return text }
    function bytes(n) {
      if (n == 0) return "nothing"
      if (n < 1000) return n " B"
      return n < 1e6 ? sprintf("%d KB", n / 1e3 + 0.5) : sprintf("%.1f MB", n / 1e6)
    }
    function number(x,   out) { out = sprintf("%.1f", x); sub(/\.0$/, "", out); return out }
    # What a row has in all settings: one text where they agree.
    function over_settings(label, what,   i, out, text) {
      out = ""
      for (i = 1; i <= settings; ++i) {
        text = what == "kept" ? kept[label, setting[i]] : passes[label, setting[i]]
        if (text != "" && text != out) out = out == "" ? text : out "; " text
      }
      return out
    }
    # Labels with commas are quoted; here they have blanks instead.
    {
      while (match($0, /"[^"]*"/)) {
        quoted = substr($0, RSTART + 1, RLENGTH - 2); gsub(/,/, " ", quoted)
        $0 = substr($0, 1, RSTART - 1) quoted substr($0, RSTART + RLENGTH)
      }
    }
    NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    {
      at = $column["stream"] "/" $column["backbone"]; label = $column["label"]; metric = $column["metric"]
      if (!(at in seen)) { seen[at] = 1; setting[++settings] = at }
      if ($column["replay_free"] == 0) mark[label] = " †"
      known[label] = 1
      if ($column["mean"] != "") {
        value[label, at, metric] = sprintf("%.1f", $column["mean"])
        if (metric == "AP" && $column["n"] > 1) value[label, at, metric] = value[label, at, metric] sprintf(" ± %.1f", $column["deviation"])
      }
      if (metric == "AP" && $column["difference"] != "") {
        change[label, at] = sprintf("%+.1f", $column["difference"])
        if ($column["difference_low"] != "")
          change[label, at] = change[label, at] sprintf(" (%.1f..%.1f)", $column["difference_low"], $column["difference_high"])
      }
      if (label != "zero-shot" && $column["bytes_kept"] != "") kept[label, at] = bytes($column["bytes_kept"])
      if (label != "zero-shot" && $column["passes"] != "") passes[label, at] = number($column["passes"])
    }
    END {
      if (wanted != "") settings = split(wanted, setting, " ")
      count = split(columns, name, ";")
      for (c = 1; c <= count; ++c) name[c] = trimmed(name[c])
      split(setting[1], first, "/")
      several_streams = 0
      for (i = 2; i <= settings; ++i) { split(setting[i], part, "/"); if (part[1] != first[1]) several_streams = 1 }
      head = "| row |"; rule = "|---|"
      for (i = 1; i <= settings; ++i)
        for (c = 1; c <= count; ++c) {
          if (name[c] ~ /^(kept|passes)$/) continue
          split(setting[i], part, "/")
          title = settings > 1 && c == 1 ? (several_streams ? part[1] : part[2]) " " : ""
          head = head " " title name[c] " |"; rule = rule "---:|"
        }
      for (c = 1; c <= count; ++c) if (name[c] ~ /^(kept|passes)$/) {
        head = head " " (name[c] == "kept" ? "kept between stages" : name[c]) " |"; rule = rule "---:|"
      }
      print head; print rule
      lines = split(rows, line, ";")
      for (l = 1; l <= lines; ++l) {
        called = ""; label = trimmed(line[l])
        if (i = index(label, " = ")) { called = trimmed(substr(label, i + 3)); label = trimmed(substr(label, 1, i - 1)) }
        if (!(label in known)) { print "page_tables: no runs of " label > "/dev/stderr"; exit 1 }
        if (called == "") called = label
        # The mark goes behind the name, before what is said of it.
        if (label in mark) { if (match(called, /,| \(/)) called = substr(called, 1, RSTART - 1) mark[label] substr(called, RSTART); else called = called mark[label] }
        out = "| " called " |"
        for (i = 1; i <= settings; ++i)
          for (c = 1; c <= count; ++c) {
            if (name[c] ~ /^(kept|passes)$/) continue
            text = name[c] ~ /^against / ? change[label, setting[i]] : value[label, setting[i], name[c]]
            out = out " " text " |"
          }
        for (c = 1; c <= count; ++c) if (name[c] ~ /^(kept|passes)$/) out = out " " over_settings(label, name[c]) " |"
        gsub(/\|  \|/, "| |", out); gsub(/\|  \|/, "| |", out)
        print out
      }
    }'
}

# The contrasts of a protocol that were measured, over all settings. usage: contrasts FILES PROTOCOL
contrasts() {
  # shellcheck disable=SC2086
  "$asr" compare $1 --protocol "$2" --format markdown --metric AP | awk -F' *[|] *' '
    /^## / { wanted = /contrasts/; next }
    !wanted || !/^\|/ || $2 ~ /^·/ { next }
    $2 == "contrast" { print "| contrast | settings | AP | " $(NF - 2) " | in words |"; print "|---|---:|---:|---:|---|"; next }
    $2 ~ /^-+/ || $5 == "-" { next }
    { gsub(/&lt;/, "<"); print "| " $2 " | " $3 " | " $5 " | " $(NF - 2) " | " $(NF - 1) " |" }'
}

# A page with its tables as they should be.
page() {
  local line inside= what= files= columns= rows= settings= protocol= key=
  while IFS= read -r line; do
    if [[ $line == "<!-- end -->" ]]; then inside=; fi
    [ "$inside" = table ] || printf '%s\n' "$line"
    if [[ $line =~ ^\<!--\ (table|contrasts):\ (.*) ]]; then
      what=${BASH_REMATCH[1]} files=${BASH_REMATCH[2]}
      inside=head columns= rows= settings= protocol= key=files
    elif [ "$inside" = head ]; then
      if [[ $line =~ ^(columns|rows|settings|protocol):\ (.*) ]]; then
        key=${BASH_REMATCH[1]}
        printf -v "$key" %s "${BASH_REMATCH[2]}"
      else
        printf -v "$key" %s "${!key} $line"
      fi
    fi
    if [ "$inside" = head ] && [[ $line == *"-->" ]]; then
      printf -v "$key" %s "${!key% -->}"
      inside=table
      if [ "$what" = table ]; then
        table "$files" "$columns" "$rows" "$settings" || return 1
      else
        contrasts "$files" "$protocol" || return 1
      fi
    fi
  done <"$1"
}

wrong=0
for name in "${pages[@]}"; do
  made=$(page "$name")
  if [ "$write" ]; then
    printf '%s\n' "$made" >"$name"
  elif diff "$name" - <<<"$made"; then
    echo "$name: $(grep -cE '^<!-- (table|contrasts): ' "$name") tables as printed"
  else
    wrong=1
  fi
done
exit $wrong
