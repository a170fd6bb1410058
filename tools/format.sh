#!/bin/sh
# Formats every C++ file of the tree; with --check it only names those that are not formatted (exit status 1).
# The version is pinned to Debian 12's: others break lines elsewhere. Without it --check is a skipped test (status 77).
set -eu
cd "$(dirname "$0")/.."
pinned=14
clang_format=
for candidate in clang-format-$pinned clang-format; do
  if "$candidate" --version 2>/dev/null | grep -q "version $pinned\."; then
    clang_format=$candidate
    break
  fi
done
if [ -z "$clang_format" ]; then
  echo "format: clang-format $pinned is not installed (apt install clang-format-$pinned); nothing was looked at"
  exit 77
fi
files() { find src tests bench examples -name '*.cpp' -o -name '*.h' -o -name '*.cu' 2>/dev/null; }
if [ "${1:-}" = --check ]; then
  bad=$(files | xargs "$clang_format" --dry-run -Werror 2>&1 | sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: error.*/\1/p' | sort -u)
  [ -z "$bad" ] && exit 0
  echo "format: not as clang-format $pinned writes them; run 'make format':" >&2
  echo "$bad" >&2
  exit 1
fi
files | xargs "$clang_format" -i
