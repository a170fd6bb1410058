#!/usr/bin/env python3
"""Short answers a second: the program's paths, transformers' generate, and what reading the prompts alone allows.

    python3 bench/answers.py --asr build-cuda/asr --model DIR          (tools/random_llava.py makes DIR; one GPU)
    python3 bench/answers.py --asr build/asr --model tests/fixtures/models/llava --device cpu --pictures 4

Both sides answer prompts of the same number of tokens with the same number of new ones, in bfloat16 on a GPU. The peer
gets its inputs ready made, all of one length, so that neither decoding nor padding counts against it; ours reads its
pictures from --picture-folder, or from PNG files of 640 x 480 that this script writes, decodes and prepares them; with
--drawn they are drawn in memory, and nothing is read. The peer's adapters are merged (the plain model) and, where peft
is installed, PEFT's own.
Prints one table, then one JSON object. Without torch and transformers the peer is left out with a line.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib

BATCHES = (1, 8, 16, 32)


def png(number, height=480, width=640):
    """A gradient whose lower four bits are noise, so that a file is about as hard to unpack as a photograph."""
    noise, size = random.Random(number), 3 * width
    high, low = int.from_bytes(b"\xf0" * size, "big"), int.from_bytes(b"\x0f" * size, "big")
    rows = bytearray()
    for y in range(height):
        slope = bytes((x * (number + 3) // 97 + y) & 255 for x in range(size))
        mixed = int.from_bytes(slope, "big") & high | int.from_bytes(noise.randbytes(size), "big") & low
        rows += b"\0" + mixed.to_bytes(size, "big")

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows), 6))
            + chunk(b"IEND", b""))


def ours(a):
    if a.drawn or a.picture_folder:
        return measured(a, a.picture_folder)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(a.pictures):
            (pathlib.Path(folder) / f"{number:06}.png").write_bytes(png(number))
        return measured(a, folder)


def measured(a, folder):
    command = [a.asr, "bench", "answers", "--model", a.model, "--device", a.device, "--batch", str(a.batch),
               "--pictures", str(a.pictures), "--questions", str(a.questions), "--new-tokens", str(a.new_tokens),
               "--text-tokens", str(a.text_tokens), "--rank", str(a.rank), "--slots", str(a.slots), "--json"]
    command += ["--picture-folder", folder] if folder else []
    command += ["--deterministic"] if a.deterministic else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("answers.py: the program ended with its own message above")
    return json.loads(done.stdout)


def peer_inputs(torch, config, rows, tokens, device, kind):
    vision = config.vision_config
    pictures = (vision.image_size // vision.patch_size) ** 2
    image = getattr(config, "image_token_index", None) or config.image_token_id
    generator = torch.Generator().manual_seed(rows)
    words = torch.randint(10, min(300, config.text_config.vocab_size), (rows, max(1, tokens - pictures - 1)),
                          generator=generator)
    words[words == image] += 1
    ids = torch.cat((torch.ones(rows, 1, dtype=torch.long), torch.full((rows, pictures), image), words), 1)
    pixels = torch.randn(rows, 3, vision.image_size, vision.image_size, generator=generator)
    return {"input_ids": ids.to(device), "attention_mask": torch.ones_like(ids).to(device),
            "pixel_values": pixels.to(device, kind)}


def answers_a_second(torch, model, inputs, new_tokens, device):
    def call():
        with torch.inference_mode():
            model.generate(**inputs, max_new_tokens=new_tokens, min_new_tokens=new_tokens, do_sample=False)
        if device == "cuda":
            torch.cuda.synchronize()

    call()
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return len(inputs["input_ids"]) / min(taken)


def peer(a, tokens):
    try:
        import torch
        import transformers
    except ImportError as error:
        return {"skipped": f"{error.name} is not installed"}
    kind = torch.bfloat16 if a.device == "cuda" else torch.float32
    model = transformers.LlavaForConditionalGeneration.from_pretrained(a.model, dtype=kind, attn_implementation="sdpa")
    model = model.to(a.device).eval()
    out = {"transformers": transformers.__version__, "torch": torch.__version__}

    def measure(name):
        speeds = {}
        for rows in BATCHES:
            inputs = peer_inputs(torch, model.config, rows, tokens, a.device, kind)
            speeds[rows] = answers_a_second(torch, model, inputs, a.new_tokens, a.device)
        best = max(speeds, key=speeds.get)
        out[name] = {"by_batch": speeds, "at_16": speeds[16], "best": speeds[best], "best_batch": best}

    measure("merged")
    try:
        import peft
    except ImportError:
        out["peft"] = {"skipped": "peft is not installed"}
        return out
    lora = peft.LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules=r".*language_model.*\.(q_proj|v_proj)")
    model = peft.get_peft_model(model, lora).to(a.device).eval()
    measure("peft")
    return out


def table(mine, other):
    rows = [("", "answers a second", "")]
    for side in mine["sides"]:
        rows.append((f"asr {side['name']}", f"{side['answers_a_second']:.2f}", side["what"]))
    for name in ("merged", "peft"):
        found = other.get(name, {})
        if "best" in found:
            rows.append((f"transformers {name}", f"{found['at_16']:.2f}", "generate, batch 16"))
            rows.append((f"transformers {name}", f"{found['best']:.2f}", f"its best, batch {found['best_batch']}"))
        elif "skipped" in found:
            rows.append((f"transformers {name}", "-", found["skipped"]))
    if "skipped" in other:
        rows.append(("transformers", "-", other["skipped"]))
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for row in rows:
        print(f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--asr", required=True, help="the program")
    parser.add_argument("--model", required=True, help="folder of a LLaVA model")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    for name, value in (("batch", 16), ("pictures", 96), ("questions", 5), ("text-tokens", 30), ("new-tokens", 5),
                        ("rank", 16), ("slots", 6)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--picture-folder",
                        help="image files to ask about, at least --pictures; default: PNG files are written")
    parser.add_argument("--drawn", action="store_true", help="pictures drawn in memory, none read")
    parser.add_argument("--deterministic", action="store_true", help="as full_determinism=yes; ours alone")
    a = parser.parse_args()
    if a.drawn and a.picture_folder:
        sys.exit("answers.py: --drawn reads no --picture-folder; give one of the two")
    if not pathlib.Path(a.model).is_dir():
        sys.exit(f"answers.py: {a.model}: no such folder; tools/random_llava.py makes one")
    mine = ours(a)
    other = peer(a, round(mine["prompt_tokens"]))
    print(f"{mine['prompt_tokens']:.0f} tokens of prompt, {mine['new_tokens']} new ones, {a.questions} questions a "
          f"picture, batch {a.batch}, {a.device}, pictures {'drawn in memory' if a.drawn else 'read from files'}")
    table(mine, other)
    sides = {side["name"]: side["answers_a_second"] for side in mine["sides"]}
    ratios = {"routed_over_unrouted": mine["routed_over_unrouted"], "shared_over_prefill": sides["shared"] / sides["prefill"]}
    if "merged" in other:
        ratios["over_transformers_best"] = sides["shared"] / max(other[name]["best"] for name in ("merged", "peft")
                                                                 if "best" in other.get(name, {}))
        ratios["over_transformers_best_unshared"] = sides["merged"] / other["merged"]["best"]
    print(", ".join(f"{name} {value:.2f}" for name, value in ratios.items()))
    print(json.dumps({"ours": mine, "peer": other, "ratios": ratios}))


main()
