#!/usr/bin/env python3
"""How far float8 and four bits move a model: logits, loss and next tokens of one pass against those of the weights as
they are; with --answers also the first tokens of a greedy answer to the first prompt, and with --train the loss that
adapters reach.

usage: tools/few_bits.py NAME=MODEL:INPUT... [--answers [--image FILE]] [--train "CONFIG [--set KEY=VALUE]..."]
       [--program FILE]
MODEL is a Hugging Face folder, INPUT the file of `asr forward --input`, or a .txt whose first line holds token ids.
Only Python's standard library is used.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from array import array


NEW_TOKENS = 20
LAST_STEPS = 40  # whose mean loss is told
CODES = {"F32": "f", "I64": "q"}


def tensors_of(path):
    """Tensors of a safetensors file: name -> (shape, numbers)."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] in CODES:
            begin, end = entry["data_offsets"]
            out[name] = (entry["shape"], array(CODES[entry["dtype"]], data[begin:end]))
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


def first_prompt(inputs, model):
    """Tokens before the first answer of the first sample, and how many pictures are among them; the tokens of a
    picture are written as one."""
    shape, ids = inputs["in.input_ids"]
    length = shape[1]
    mask = inputs["in.attention_mask"][1] if "in.attention_mask" in inputs else [1] * length
    labels = inputs["in.labels"][1]
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    image = config.get("image_token_index", config.get("image_token_id"))
    out, pictures = [], 0
    for at in range(length):
        if labels[at] >= 0 and "in.pixel_values" in inputs:
            break
        if not mask[at] or (ids[at] == image and out and out[-1] == image):
            continue
        pictures += ids[at] == image
        out.append(ids[at])
    return out if "in.pixel_values" in inputs else out[:8], pictures


def answered(program, model, prompt, pictures, image, precision):
    command = [program, "generate", "--model", model, "--prompt-ids", ",".join(map(str, prompt)), "--max-new-tokens",
               str(NEW_TOKENS), "--base-precision", precision, "--json"]
    for _ in range(pictures):
        command += ["--image", image]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"few_bits: {model}: {ended.stderr.strip()}")
    return json.loads(ended.stdout)["ids"]


def trained_loss(program, model, run, precision):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--threads", "1", "run", *run.split(), "--set", f"model_name_or_path={model}", "--set",
                   "logging_steps=1", "--set", f"base_precision={precision}", "--set", f"output_dir={folder}/run"]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            sys.exit(f"few_bits: {model}: {ended.stderr.strip()}")
        log, = pathlib.Path(folder).glob("**/log.jsonl")
        steps = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [step["task_loss"] for step in steps if "task_loss" in step]
    return sum(losses[-LAST_STEPS:]) / LAST_STEPS, len(losses)


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
    usage.add_argument("--answers", action="store_true", help=f"also {NEW_TOKENS} tokens of a greedy answer")
    usage.add_argument("--image", default="", help="with --answers: the picture of prompts that have some")
    usage.add_argument("--train", help="files and options of 'asr run' for one label and one stage")
    usage.add_argument("--program", default=os.environ.get("ASR", "build/asr"), help="default: $ASR or build/asr")
    given = usage.parse_args()
    columns = ["model", "frozen weights", "logits away", "same next tokens", "loss"]
    if given.answers:
        columns.append(f"same of {NEW_TOKENS} new tokens")
    if given.train:
        columns.append("loss after training")
    print("| " + " | ".join(columns) + " |\n|---|---|" + "---:|" * (len(columns) - 2))
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
            prompt, pictures = first_prompt(tensors_of(inputs), model)
            tokens = []
            for precision in ("plain", "fp8", "nf4"):
                row = [name, f"`{precision}`"]
                if precision == "plain":
                    row += ["", "", f"{plain['loss'][1][0]:.3f}" if "loss" in plain else ""]
                else:
                    away, same, count, loss = compared(plain, forward(given.program, model, inputs, out, precision))
                    row += [f"{100 * away:.1f} %", f"{same} of {count}", loss]
                if given.answers:
                    found = answered(given.program, model, prompt, pictures, given.image, precision)
                    tokens = tokens or found
                    row.append("" if precision == "plain" else str(sum(a == b for a, b in zip(tokens, found))))
                if given.train:
                    row.append("{:.3f} (of {} steps)".format(*trained_loss(given.program, model, given.train, precision)))
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
