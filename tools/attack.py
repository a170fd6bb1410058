#!/usr/bin/env python3
"""A random campaign of bad inputs against every command of asr.

    tools/attack.py [--inputs 10000] [--seed 1] [--build build] [--keep attack-findings] [--only COMMAND]

Valid inputs of every kind (safetensors, JSON, JSON lines, CSV, YAML, tokenizers, pictures, model folders, run folders,
streams) are made once, then mutated: bytes, numbers, members, types, depths, links. Every command must end with status
0 or 2 (audit: also 1, when it fails a run; one that is stopped at its limit: 143), without a signal, without "internal
error", within its time, and with one line on stderr when it refuses. Anything else is a finding, kept with its input.
The commands run in forks of one process (tests/attack/fork_server.cpp), so that libtorch is loaded once."""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "data" / "models"


# Files by hand -------------------------------------------------------------------------------------------------------

def safetensors(tensors, metadata=None, stamp=False):
    """Bytes of a file; tensors: name -> (dtype, shape, data). `stamp`: with the checksum that asr verifies."""
    metadata = dict(metadata or {})
    if stamp:
        metadata["sha256"] = checksum(tensors, metadata)
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return pack_header(json.dumps(header), data)


def pack_header(text, data):
    raw = text.encode("utf-8", "surrogatepass")
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw + data


def checksum(tensors, metadata):
    out = hashlib.sha256()

    def text(value):
        raw = value.encode("utf-8", "surrogatepass")
        out.update(struct.pack("<Q", len(raw)) + raw)

    for name in sorted(tensors):
        dtype, shape, values = tensors[name]
        text(name), text(dtype)
        out.update(struct.pack("<Q", len(shape)) + b"".join(struct.pack("<Q", size & (2**64 - 1)) for size in shape))
        out.update(values)
    for key in sorted(metadata):
        if key != "sha256":
            text(key), text(metadata[key])
    return out.hexdigest()


def parse_safetensors(raw):
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    metadata = header.pop("__metadata__", {})
    return {n: (e["dtype"], e["shape"], data[e["data_offsets"][0]:e["data_offsets"][1]])
            for n, e in header.items()}, metadata


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def png(width, height, rng):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + rng.randbytes(width * 3) for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# Mutations -----------------------------------------------------------------------------------------------------------

def odd_values(rng):
    return rng.choice([
        None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -2**63, 2**64, 1e-310, 1e308, -0.5, "", "a", "\u0000",
        "\ud800", "../../etc/passwd", "/dev/zero", "/dev/full", "x" * 5000, "\n", "[", "NaN", [], {}, [[]], [None],
        {"a": 1}, [1] * 300, "\u202e<script>", "é" * 50, [0] * 17])


RAW = ["1e999", "-1e999", "NaN", "Infinity", "[" * 600 + "]" * 600, "[" * 100000, '{"a":' * 2000, "00", "1.", "'a'",
       "\x01", '"\\ud800"', "1" * 400, '"' + "a" * 100000 + '"']


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, path + (key,))


def mutate_json(text, rng):
    """Structure first: a value of another type, a missing or doubled member; then text that is not JSON at all."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mutate_bytes(text.encode(), rng)
    raw = None
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        found = list(places(value))
        path = rng.choice(found[:4000])
        if not path:
            if rng.random() < 0.1:
                value = odd_values(rng)
            continue
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        action = rng.randrange(6)
        if action == 0 and isinstance(parent, (dict, list)):
            del parent[path[-1]]
        elif action == 1 and isinstance(parent, dict):
            parent[str(odd_values(rng))[:100]] = parent.pop(path[-1])
        elif action == 2:
            other = value
            for key in rng.choice(found[:4000]):
                if not isinstance(other, (dict, list)):
                    break
                try:
                    other = other[key]
                except (KeyError, IndexError):
                    break
            parent[path[-1]] = json.loads(json.dumps(other))
        elif action == 3:
            raw = rng.choice(RAW)
            parent[path[-1]] = "@raw@"
        else:
            parent[path[-1]] = odd_values(rng)
    out = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
    if raw is not None:
        out = out.replace('"@raw@"', raw, 1)
    return out.encode("utf-8", "surrogatepass")


def mutate_lines(raw, rng):
    lines = raw.split(b"\n")
    at = rng.randrange(len(lines))
    action = rng.randrange(6)
    if action == 0:
        lines[at] = mutate_json(lines[at].decode("utf-8", "replace"), rng)
    elif action == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif action == 2:
        del lines[at]
    elif action == 3:
        lines[at] = mutate_bytes(lines[at], rng)
    elif action == 4:
        lines[at] = lines[at].replace(b",", rng.choice([b",,", b";", b",\"", b"\t", b", "]), rng.choice([1, -1]))
    else:
        cells = lines[at].split(b",")
        cells[rng.randrange(len(cells))] = rng.choice(
            [b"", b"nan", b"inf", b"1e999", b"-1", b"\"a", b"\"a\"b", b"x" * 3000, b"\xff", b"=1+1", b"101"])
        lines[at] = b",".join(cells)
    return b"\n".join(lines)


def mutate_yaml(raw, rng):
    lines = raw.decode("utf-8", "replace").split("\n")
    at = rng.randrange(len(lines))
    action = rng.randrange(5)
    if action == 0:
        key = lines[at].split(":")[0]
        lines[at] = key + ": " + rng.choice(
            ["", "-1", "1e999", "nan", ".inf", "[]", "{}", "[1, [2]]", "*a", "&a b", "!!binary x", "'", "x" * 3000,
             "999999999999999999999", "yes", "null", "[" * 5000, "\t", "\u0000", "1e-310", "\"\\uD800\""])
    elif action == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif action == 2:
        lines[at] = " " * rng.randrange(9) + lines[at]
    elif action == 3:
        lines.insert(at, rng.choice(["---", "...", "- a", "? b", "a: &x [*x]", "<<: {a: 1}", "# " + "é" * 9, "%YAML 9"]))
    else:
        return mutate_bytes(raw, rng)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def mutate_bytes(raw, rng):
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        action, at = rng.randrange(6), rng.randrange(len(out) + 1)
        if action == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif action == 1 and out:
            out[at % len(out)] = rng.choice([0, 1, 0x7f, 0x80, 0xff, 0x22, 0x7b, 0x5b, 0x0a])
        elif action == 2:
            del out[at:at + rng.choice([1, 2, 8, 100, 10000])]
        elif action == 3:
            out[at:at] = rng.choice([b"\0" * 8, b"\xff" * 8, rng.randbytes(16), b"[" * 50, b"\"", b"{", b"\r\n"])
        elif action == 4:
            end = at + rng.choice([4, 16, 64])
            out[at:at] = out[at:end]
        elif len(out) >= 8:
            at = min(at, len(out) - 8)
            out[at:at + 8] = struct.pack("<Q", rng.choice([0, 1, 2**31, 2**32, 2**63, 2**64 - 1, rng.randrange(2**40)]))
    if rng.random() < 0.05:
        return b""
    return bytes(out)


def mutate_safetensors(raw, rng):
    """The header as JSON, or its tensors and metadata with a right checksum, so that what lies deeper is reached too."""
    action = rng.randrange(4)
    try:
        if action == 0:
            return mutate_bytes(raw, rng)
        size = struct.unpack("<Q", raw[:8])[0]
        if action == 1:
            text = mutate_json(raw[8:8 + size].decode(), rng)
            return struct.pack("<Q", len(text)) + text + raw[8 + size:]
        tensors, metadata = parse_safetensors(raw)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, struct.error):
        return mutate_bytes(raw, rng)
    if action == 2 and metadata:
        key = rng.choice(sorted(metadata))
        text = mutate_json(str(metadata[key]), rng).decode("utf-8", "replace")
        metadata[key] = text
    elif tensors:
        name = rng.choice(sorted(tensors))
        dtype, shape, values = tensors.pop(name)
        change = rng.randrange(5)
        if change == 0:  # numbers that no one expects
            count = max(1, len(values) // 4)
            odd = [floats(float("nan")), floats(float("inf")), floats(-1), floats(0), floats(3e38), b"\xff" * 4]
            tensors[name] = (dtype, shape, b"".join(rng.choice(odd) for _ in range(count))[:len(values)])
        elif change == 1:  # another shape of the same size, or an empty one
            total = 1
            for extent in shape:
                total *= extent
            tensors[name] = (dtype, rng.choice([[total], [1] * 3 + [total], [total, 1]]), values)
        elif change == 2:
            tensors[name] = (dtype, [0] + shape[1:], b"")
        elif change == 3:
            tensors["x" * rng.choice([0, 1, 500]) + name] = (dtype, shape, values)
    stamp = "sha256" in metadata
    metadata = {k: v for k, v in metadata.items() if k != "sha256"}
    try:
        return safetensors(tensors, metadata, stamp)
    except (TypeError, AttributeError, struct.error):
        return mutate_bytes(raw, rng)


def mutate(path, raw, rng):
    name = path.name
    if rng.random() < 0.15:
        return mutate_bytes(raw, rng)
    if name.endswith(".safetensors") or raw[8:9] == b"{":
        return mutate_safetensors(raw, rng)
    if name.endswith((".jsonl", ".csv", ".tsv", ".txt")):
        return mutate_lines(raw, rng)
    if name.endswith(".json"):
        return mutate_json(raw.decode("utf-8", "replace"), rng)
    if name.endswith((".yaml", ".yml")):
        return mutate_yaml(raw, rng)
    return mutate_bytes(raw, rng)


def spoil(folder, rng):
    """One file of a folder, or the folder itself; now and then two."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    for _ in range(rng.choice([1, 1, 1, 2])):
        victim = rng.choice(files)
        action = rng.randrange(20)
        if action == 0:
            victim.unlink()
        elif action == 1:
            victim.unlink()
            victim.symlink_to(rng.choice([victim.name, "/dev/null", "/proc/self/mem", "/nowhere"]))
        elif action == 2:
            victim.unlink()
            victim.mkdir()
        elif action == 3:
            victim.unlink()
            os.mkfifo(victim)
        elif action == 4:
            victim.chmod(0)
        else:
            victim.write_bytes(mutate(victim, victim.read_bytes(), rng))
            continue
        files.remove(victim)
        if not files:
            return


# Targets -------------------------------------------------------------------------------------------------------------

class Target:
    """A command with a folder of its inputs. `arguments` use {i} for the folder and {o} for a place to write."""

    def __init__(self, name, source, arguments, weight=1, limit=20, statuses=(0, 2), stdin="in", stops=False):
        self.name, self.source, self.arguments, self.weight, self.limit = name, source, arguments, weight, limit
        self.statuses, self.stdin = set(statuses), stdin
        if stops:  # may train for as long as a mutated option says: stopped at the limit, it must end in order
            self.statuses |= {130, 143}


def make_inputs(base, place, rng, program):
    """One folder a target, small, and all valid."""
    def folder(name):
        out = base / name
        out.mkdir(parents=True)
        return out

    f = folder("spectrum")
    attention = [rng.random() for _ in range(2 * 2 * 2 * 3 * 4 * 4)]
    (f / "x.safetensors").write_bytes(safetensors({
        "attention": ("F32", [2, 2, 2, 3, 4, 4], floats(*attention)),
        "functional": ("F32", [2, 3], floats(*[1] * 6)), "valid": ("F32", [2, 3], floats(*[1] * 6)),
        "posterior": ("F32", [2, 3], floats(.2, .3, .5, 1, 0, 0)),
        "geo.image": ("F32", [2, 4], floats(*range(8))), "geo.text": ("F32", [2, 4], floats(*range(8))),
        "geo.image_ref": ("F32", [2, 4], floats(*range(8))), "geo.text_ref": ("F32", [2, 4], floats(*range(8)))}))
    (f / "options.yaml").write_text("spectral:\n  radial_bins: 4\n  dc: keep\nasr:\n  gamma: 0.1\n")

    f = folder("memory")
    d = 2 * (8 + 2 * 8 + 3)
    for stage in ("a", "b"):
        (f / (stage + ".safetensors")).write_bytes(safetensors({
            "descriptor": ("F32", [6, d], floats(*[rng.random() for _ in range(6 * d)])),
            "angular": ("F32", [6, 8], floats(*[1 / 8] * 48)),
            "posterior": ("F32", [6, 3], floats(*[1 / 3] * 18))}, {"skills": '["a", "b", "c"]'}))
        subprocess.run([program, "memory", "update", str(f / "m.safetensors"), "-i", str(f / (stage + ".safetensors"))],
                       check=True, capture_output=True)
        shutil.copy(f / "m.safetensors", f / ("m" + stage + ".safetensors"))

    f = folder("matrix")
    (f / "m.csv").write_text("stage,a,b,c\n0,1,2,3\n1,50,,\n2,40,60,\n3,30,50,70.5\n")

    f = folder("score")
    rows = [{"question_id": i, "text": "a red %d" % i} for i in range(5)]
    (f / "p.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (f / "r.jsonl").write_text("".join(json.dumps(
        {"question_id": i, "answer": "red %d" % i, "answers": ["red"] * 10, "type": "DO"}) + "\n" for i in range(5)))

    f = folder("skills")
    shutil.copy(ROOT / "configs" / "taxonomy.yaml", f / "taxonomy.yaml")
    (f / "q.jsonl").write_text("".join(json.dumps({"question": "how many balls %d?" % i, "skill": "count"}) + "\n"
                                       for i in range(12)))
    (f / "q.tsv").write_text("count\thow many?\ncolor\twhat color is it?\n" * 6)
    shutil.copy(ROOT / "assets" / "parser-world.safetensors", f / "parser.safetensors")

    for model in sorted(MODELS.iterdir()):
        shutil.copytree(model, base / ("model-" + model.name))
        (base / ("model-" + model.name) / "p.png").write_bytes(png(40, 30, rng))

    f = folder("pretrained")
    shutil.copy(ROOT / "assets" / "tiny-S.safetensors", f / "m.safetensors")

    f = folder("stream")
    (f / "images").mkdir()
    for i in range(4):
        (f / "images" / ("%d.png" % i)).write_bytes(png(16, 12, rng))
    for task in ("one", "two"):
        for split in ("train", "val"):
            (f / ("%s.%s.jsonl" % (task, split))).write_text("".join(json.dumps(
                {"id": "%s-%s-%d" % (task, split, i), "image": "%d.png" % (i % 4), "question": "what is it %d?" % i,
                 "answer": "a ball"}) + "\n" for i in range(6)))
    (f / "stream.json").write_text(json.dumps(
        {"images": "images", "metric": "exact", "tasks": [
            {"name": t, "files": {s: "%s.%s.jsonl" % (t, s) for s in ("train", "val")}} for t in ("one", "two")]}))

    f = place / "prepared"  # made where it will be used: a preparation remembers its source's path and times
    shutil.copytree(base / "stream", f / "source")
    subprocess.run([program, "prepare", "manifest", "--source", str(f / "source"), "--images",
                    str(f / "source" / "images"), "-o", str(f / "out")], check=True, capture_output=True)
    shutil.move(f, base / "prepared")

    small = ("stream:\n  name: world-10\n  tasks: 2\n  train: 8\n  val: 4\nper_device_train_batch_size: 4\n"
             "analysis:\n  samples: 2\nsave_steps: 1\n")
    for method in ("ewc", "asr"):
        f = folder("run-" + method)
        (f / "c.yaml").write_text("method: %s\noutput_dir: %s\n" % (method, f / "out") + small)
        subprocess.run([program, "run", str(f / "c.yaml"), "--threads", "1"], check=True, capture_output=True)
    shutil.copytree(base / "run-asr", base / "run-part")
    (base / "run-part" / "out" / "asr" / "metrics.json").unlink()  # as if it had been stopped before its end
    f = folder("config")
    (f / "c.yaml").write_text("method: asr\n" + small + "learning_rate: 0.001\nlora_rank: 4\newc:\n  lambda: 10\n")


def targets():
    run = ["--threads", "1", "--log", "off"]
    out = [
        Target("spectrum", "spectrum", ["spectrum", "{i}/x.safetensors", "-o", "{o}", "--config", "{i}/options.yaml"], 3),
        Target("memory update", "memory", ["memory", "update", "{i}/m.safetensors", "-i", "{i}/a.safetensors"], 2),
        Target("memory show", "memory", ["memory", "show", "{i}/m.safetensors"]),
        Target("memory verify", "memory", ["memory", "verify", "{i}/m.safetensors"]),
        Target("drift (memories)", "memory", ["drift", "{i}/ma.safetensors", "{i}/mb.safetensors"], 2),
        Target("matrix", "matrix", ["matrix", "{i}/m.csv"], 3),
        Target("skills", "skills", ["skills", "how many balls?", "--parser", "{i}/parser.safetensors", "--taxonomy",
                                    "{i}/taxonomy.yaml"], 2),
        Target("parser eval", "skills", ["parser", "eval", "{i}/parser.safetensors", "--data", "{i}/q.jsonl"]),
        Target("parser train", "skills", ["parser", "train", "--data", "{i}/q.tsv", "--steps", "2", "-o", "{o}"]),
        Target("doctor (stream)", "stream", ["doctor", "{i}/../config/c.yaml", "--set", "stream.name=manifest", "--set",
                                             "stream.path={i}", "--set", "output_dir={o}"], 3),
        Target("prepare manifest", "stream", ["prepare", "manifest", "--source", "{i}", "--images", "{i}/images", "-o",
                                              "{o}"], 4),
        Target("prepare again", "prepared", ["prepare", "manifest", "--source", "{i}/source", "--images",
                                             "{i}/source/images", "-o", "{i}/out"], 2),
        Target("doctor (config)", "config", ["doctor", "{i}/c.yaml", "--set", "output_dir={o}"], 2),
        Target("run (config)", "config", ["run", "{i}/c.yaml", "--set", "output_dir={o}"], 1, 6, stops=True),
        Target("tune (config)", "config", ["tune", "{i}/c.yaml", "--grid", "learning_rate=[0.1]", "--set",
                                           "output_dir={o}"], 0.3, 6, (0, 1, 2), stops=True),
        Target("run (stream)", "stream", ["run", "{i}/../config/c.yaml", "--set", "stream.name=manifest", "--set",
                                          "stream.path={i}", "--set", "output_dir={o}"], 0.5, 6, stops=True),
    ]
    out.append(Target("pretrain", "pretrained", ["pretrain", "-o", "{o}", "--init", "{i}/m.safetensors", "--steps", "1",
                                                 "--batch", "2", "--pool", "64", "--check-every", "0",
                                                 "--check-samples", "1"], 0.5, 15, stops=True))
    out.append(Target("run --resume (stopped)", "run-part", ["run", "{i}/c.yaml", "--resume", "--set",
                                                             "output_dir={i}/out"], 2, 10, stops=True))
    for metric in ("exact", "vqa", "contains", "cider", "wups"):
        out.append(Target("score " + metric, "score", ["score", "--metric", metric, "--predictions", "{i}/p.jsonl",
                                                       "--references", "{i}/r.jsonl", "--per-sample"]))
    for method in ("ewc", "asr"):
        source, inner = "run-" + method, "{i}/out/" + method
        out += [
            Target("compare", source, ["compare", "{i}/out"], 2),
            Target("report", source, ["report", "{i}/out", "-o", "{o}"], 2),
            Target("audit", source, ["audit", inner], 1, 30, (0, 1, 2)),
            Target("run --resume", source, ["run", "{i}/c.yaml", "--resume", "--set", "output_dir={i}/out"], 1, 10,
                   stops=True),
            Target("drift (analysis)", source, ["drift", inner + "/stages/01/analysis.safetensors",
                                                inner + "/stages/02/analysis.safetensors"], 2),
            Target("bound", source, ["bound", inner]),
            Target("matrix (run)", source, ["matrix", inner + "/matrix.csv"]),
        ]
    for model in sorted(p.name for p in MODELS.iterdir()):
        source = "model-" + model
        if (MODELS / model / "tokenizer.json").exists():
            out.append(Target("tokenize", source, ["tokenize", "--model", "{i}"], 1, stdin="text"))
            out.append(Target("generate", source, ["generate", "--model", "{i}", "--adapter", "{i}/adapter", "--image",
                                                   "{i}/p.png", "--prompt", "what is it?", "--max-new-tokens", "2"], 1))
        if (MODELS / model / "preprocessor_config.json").exists():
            out.append(Target("preprocess", source, ["preprocess", "--model", "{i}", "{i}/p.png", "-o", "{o}"], 1))
        out.append(Target("forward", source, ["forward", "--model", "{i}", "-i", "{i}/io.safetensors", "-o", "{o}"], 0.5))
        out.append(Target("merge", source, ["merge", "--model", "{i}", "--adapter", "{i}/adapter", "-o", "{o}"], 0.5))
    for target in out:
        # asr pretrain's own --log names a file
        target.arguments = target.arguments + (run[:2] if target.name == "pretrain" else run)
    return out


# The campaign --------------------------------------------------------------------------------------------------------

class Server:
    def __init__(self, path):
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", ASR_ASSETS=str(ROOT / "assets"))
        self.process = subprocess.Popen([str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def run(self, place, limit, arguments):
        self.process.stdin.write("\t".join([str(place), str(limit)] + arguments) + "\n")
        self.process.stdin.flush()
        status, seconds = self.process.stdout.readline().split()
        return int(status), float(seconds)


def judge(target, status, seconds, error):
    """The reason why an outcome is a finding, or nothing."""
    lines = [line for line in error.split("\n") if line.strip()]
    told = [line for line in lines if line.startswith("asr: ")]
    if status == 124:
        return "did not end %d s after SIGTERM" % 15
    if status in (143, 130) and status not in target.statuses:
        return "took longer than %g s" % target.limit
    if status >= 128 and status not in (130, 143):
        return "signal %d" % (status - 128)
    if "internal error" in error:
        return "internal error"
    if status not in target.statuses:
        return "status %d" % status
    if status == 2 and (len(told) != 1 or lines[-1] != told[0]):
        return "%d lines for an error" % len(lines)
    if len(error) > 20000:
        return "%d bytes on stderr" % len(error)
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--keep", default="attack-findings", help="folder for the inputs that were findings")
    parser.add_argument("--only", help="commands whose name begins so")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options = parser.parse_args()
    subprocess.run(["ninja", "-C", options.build, "asr", "fork_server"], check=True, stdout=subprocess.DEVNULL)
    rng = random.Random(options.seed)
    work = pathlib.Path(tempfile.mkdtemp(prefix="asr-attack-"))
    base, place = work / "valid", work / "case"
    make_inputs(base, place, rng, os.path.join(options.build, "asr"))
    server = Server(pathlib.Path(options.build) / "tests" / "fork_server")
    chosen = [t for t in targets() if not options.only or t.name.startswith(options.only)]
    assert chosen, "no such command"
    counts = collections.defaultdict(lambda: collections.Counter())
    slowest, findings, start = collections.defaultdict(float), [], time.time()

    def attempt(target, spoiled, number):
        shutil.rmtree(place, ignore_errors=True)
        for link in target.arguments:  # neighbours that an argument names
            if "/../" in link:
                shutil.copytree(base / link.split("/")[2], place / link.split("/")[2], dirs_exist_ok=True)
        inputs = place / target.source
        shutil.copytree(base / target.source, inputs, symlinks=True)
        if spoiled:
            spoil(inputs, rng)
        streams = place / "streams"
        streams.mkdir()
        text = b"what is <image>?\n\xff\n" + rng.randbytes(60).replace(b"\n", b"") + b"\n" if target.stdin == "text" else b""
        (streams / "in").write_bytes(text)
        arguments = [a.replace("{i}", str(inputs)).replace("{o}", str(place / "output")) for a in target.arguments]
        status, seconds = server.run(streams, target.limit, arguments)
        error = (streams / "error").read_text(errors="replace")
        reason = judge(target, status, seconds, error)
        counts[target.name][status] += 1
        slowest[target.name] = max(slowest[target.name], seconds)
        if reason:
            kept = pathlib.Path(options.keep) / ("%05d" % number)
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            subprocess.run(["cp", "-a", str(inputs), str(kept)], check=False)
            (kept / "command").write_text("asr " + " ".join(arguments) + "\n\n" + reason + "\n\n" + error[-4000:])
            findings.append((number, target.name, reason, error.strip().split("\n")[-1][:200]))
            print("finding %d: %s: %s: %s" % findings[-1], flush=True)
        return status

    for target in chosen:  # what is not spoiled must be taken
        status = attempt(target, False, 0)
        if status != 0:
            print("the valid input of '%s' ends with status %d: %s" % (
                target.name, status, (place / "streams" / "error").read_text(errors="replace").strip()[-300:]))
    counts.clear()
    done = 0
    for number in range(1, options.inputs + 1):
        target = rng.choices(chosen, [t.weight for t in chosen])[0]
        attempt(target, True, number)
        done += 1
        if time.time() - start > options.seconds:
            break
    shutil.rmtree(work, ignore_errors=True)
    print("\n| command | inputs | taken | refused | stopped | findings | slowest |\n|---|---|---|---|---|---|---|")
    for name in sorted(counts):
        c = counts[name]
        bad = sum(1 for finding in findings if finding[1] == name and finding[0] > 0)
        print("| %s | %d | %d | %d | %d | %d | %.1f s |" % (
            name, sum(c.values()), c[0] + c[1], c[2], c[130] + c[143], bad, slowest[name]))
    print("%d inputs in %.0f s, seed %d: %d findings" % (done, time.time() - start, options.seed, len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
