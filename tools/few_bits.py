#!/usr/bin/env python3
"""How far float8 and four bits move a model: logits, loss and next tokens of one pass against those of the weights as
they are.

usage: tools/few_bits.py NAME=MODEL:INPUT... [--program FILE]
MODEL is a Hugging Face folder, INPUT the file of `asr forward --input`, or a .txt whose first line holds token ids.
Only Python's standard library is used.
"""
import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from array import array


def tensors_of(path):
    """The float32 tensors of a safetensors file: name -> (shape, numbers)."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            out[name] = (entry["shape"], array("f", data[begin:end]))
    return out


def write_ids(path, ids):
    """One sample of these tokens, each of which is to be predicted."""
    columns = {"in.input_ids": ids, "in.attention_mask": [1] * len(ids), "in.labels": ids}
    header, data = {}, b""
    for name, numbers in columns.items():
        packed = array("q", numbers).tobytes()
        header[name] = {"dtype": "I64", "shape": [1, len(ids)], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def forward(program, model, given, output, precision):
    command = [program, "forward", "--model", model, "--input", given, "--output", output, "--precision", "float32",
               "--base-precision", precision]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"few_bits: {model}: {ended.stderr.strip()}")
    return tensors_of(output)


def best_of_rows(logits):
    shape, numbers = logits
    width = shape[-1]
    rows = (numbers[i:i + width] for i in range(0, len(numbers), width))
    return [max(range(width), key=row.__getitem__) for row in rows]


def compared(plain, changed):
    before, after = plain["logits"][1], changed["logits"][1]
    away = math.sqrt(sum((a - b) ** 2 for a, b in zip(before, after)) / sum(a * a for a in before))
    best, other = best_of_rows(plain["logits"]), best_of_rows(changed["logits"])
    same = sum(a == b for a, b in zip(best, other))
    loss = f"{changed['loss'][1][0]:.3f}" if "loss" in changed else ""
    return away, same, len(best), loss


def main():
    usage = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    usage.add_argument("models", nargs="+", metavar="NAME=MODEL:INPUT")
    usage.add_argument("--program", default=os.environ.get("ASR", "build/asr"), help="default: $ASR or build/asr")
    given = usage.parse_args()
    print("| model | frozen weights | logits away | same next tokens | loss |\n|---|---|---:|---:|---:|")
    for entry in given.models:
        name, rest = entry.split("=", 1)
        model, inputs = rest.split(":", 1)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.safetensors")
            if inputs.endswith(".txt"):
                with open(inputs) as file:
                    ids = [int(word) for word in file.readline().split()]
                inputs = os.path.join(folder, "in.safetensors")
                write_ids(inputs, ids)
            plain = forward(given.program, model, inputs, out, "plain")
            loss = f"{plain['loss'][1][0]:.3f}" if "loss" in plain else ""
            print(f"| {name} | `plain` | | | {loss} |")
            for precision in ("fp8", "nf4"):
                away, same, count, loss = compared(plain, forward(given.program, model, inputs, out, precision))
                print(f"| {name} | `{precision}` | {100 * away:.1f} % | {same} of {count} | {loss} |")


if __name__ == "__main__":
    main()
