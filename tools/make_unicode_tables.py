#!/usr/bin/env python3
"""Writes src/io/unicode_tables.inc: the few Unicode properties that tokenizers need, from python3's unicodedata.

usage: tools/make_unicode_tables.py > src/io/unicode_tables.inc
Ranges are (first, last, value); what no range holds has class Other, combining class 0 and no lower-case form.
"""
import sys
import unicodedata

LAST = 0x110000
SPACES = {9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x200B)}


def klass(code):
    category = unicodedata.category(chr(code))
    if code in SPACES:
        return "Space"
    if category[0] == "L":
        return "Letter"
    if category[0] == "N":
        return "Number"
    if category == "Mn":
        return "Accent"
    if category[0] == "M":
        return "Mark"
    if category[0] == "P":
        return "Punctuation"
    if category in ("Cc", "Cf", "Co"):
        return "Control"
    return None


def ranges(value_of):
    """Runs of equal values, without those that are None."""
    out = []
    for code in range(LAST):
        value = value_of(code)
        if value is None:
            continue
        if out and out[-1][1] == code - 1 and out[-1][2] == value:
            out[-1][1] = code
        else:
            out.append([code, code, value])
    return out


def decompositions():
    for code in range(LAST):
        parts = unicodedata.decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<"):
            continue
        codes = [int(part, 16) for part in parts] + [0]
        text = "".join(chr(c) for c in codes[: len(parts)])
        composes = len(parts) == 2 and unicodedata.normalize("NFC", text) == chr(code)
        yield f"{{0x{code:x}, 0x{codes[0]:x}, 0x{codes[1]:x}, {int(composes)}}}"


def lower_runs():
    """(first, last, step, difference): runs of neighbours, or of every second code (alternating alphabets)."""
    out = []
    for code in range(LAST):
        low = chr(code).lower()
        if len(low) != 1 or ord(low) == code:  # U+0130 alone has two letters; the program knows it
            continue
        delta = ord(low) - code
        if out and out[-1][3] == delta:
            first, last, step, _ = out[-1]
            gap = code - last
            if gap in (1, 2) and (first == last or gap == step):
                out[-1][1], out[-1][2] = code, gap
                continue
        out.append([code, code, 1, delta])
    return [f"{{0x{a:x}, 0x{b:x}, {step}, {delta}}}" for a, b, step, delta in out]


def table(type_name, name, rows):
    print(f"constexpr {type_name} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 120:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + "\n};")


print(f"// Made by tools/make_unicode_tables.py from Unicode {unicodedata.unidata_version}; do not edit.")
table("ClassRange", "kClasses", [f"{{0x{a:x}, 0x{b:x}, C::{c}}}" for a, b, c in ranges(klass)])
combining = ranges(lambda code: unicodedata.combining(chr(code)) or None)
table("CombiningRange", "kCombining", [f"{{0x{a:x}, 0x{b:x}, {c}}}" for a, b, c in combining])
table("Decomposition", "kDecompositions", list(decompositions()))
table("LowerRun", "kLower", lower_runs())
sys.stdout.flush()
