#!/usr/bin/env python3
"""How often a key of `route` names a sample's stage, on streams of the built-in world: a table in markdown.

Keys are of the untouched base, so one step a stage is enough; moments are of all training samples. What is counted is
routing.csv, of the last stage: samples of a split that went to the slot of their own stage. By default that split is
`tune` with the tuning seed of the protocols, so that nothing reported is looked at.

  tools/route_keys.py out/keys --streams world-hue,world-rule [--asr build/asr] [--jobs 1] [--seed 101] [--split tune]

A run that is complete is not made again.
"""
import argparse
import concurrent.futures
import csv
import os
import subprocess
import sys

KEYS = {
    "states after layer 1": ["route.keys=[states]"],
    "states after layer 2": ["route.keys=[states]", "route.layer=2"],
    "states after layer 4": ["route.keys=[states]", "route.layer=4"],
    "states after layer 1, and late ones": ["route.keys=[states,late]"],
    "mean question embedding": ["route.keys=[tokens]"],
    "spectra, heads averaged": ["route.keys=[spectra]"],
    "spectra, heads kept": ["route.keys=[spectra]", "route.heads=kept"],
    "states (1) and spectra, heads kept": ["route.keys=[states,spectra]", "route.heads=kept"],
    "word counts and thumbnail": ["route.keys=[thumbnail]"],
    "states (1) and mean question embedding": ["route.keys=[states,tokens]"],
    "states (1), late ones and mean question embedding": ["route.keys=[states,late,tokens]"],
}


def folder_of(arguments, stream, number):
    return os.path.join(arguments.out, f"{stream}-{number}-{arguments.split}-{arguments.seed}")


def run(arguments, stream, number):
    folder = folder_of(arguments, stream, number)
    if os.path.exists(f"{folder}/compare.md"):
        return
    sets = list(KEYS.values())[number] + [
        "method=route", "max_stage_steps=1", f"eval_split={arguments.split}", f"seeds=[{arguments.seed}]",
        f"stream.train={arguments.train}", f"stream.val={arguments.rows}", f"output_dir={folder}"] + arguments.set
    command = [arguments.asr, "--threads", "1", "run", f"configs/{stream}.yaml"]
    for text in sets:
        command += ["--set", text]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{stream}, {list(KEYS)[number]}: {done.stderr.strip().splitlines()[-1]}")


def accuracy(arguments, stream, number):
    path = f"{folder_of(arguments, stream, number)}/route-seed{arguments.seed}/routing.csv"
    rows = list(csv.reader(open(path)))[1:]
    counts = [[int(value) for value in row[1:]] for row in rows]
    return 100 * sum(row[i] for i, row in enumerate(counts)) / sum(map(sum, counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--streams", default="world-hue,world-rule,world-code,world-thing,world-cue,world-blur")
    parser.add_argument("--asr", default="build/asr")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--split", default="tune")
    parser.add_argument("--train", type=int, default=1600)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--keys", default=",".join(map(str, range(len(KEYS)))), help="numbers of the table's rows")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of every run")
    arguments = parser.parse_args()
    streams = arguments.streams.split(",")
    keys = [int(number) for number in arguments.keys.split(",")]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda pair: run(arguments, *pair), [(s, k) for s in streams for k in keys]))
    print("| key | " + " | ".join(streams) + " |")
    print("|---|" + "---:|" * len(streams))
    for number in keys:
        name = list(KEYS)[number]
        values = [f"{accuracy(arguments, s, number):.1f}" for s in streams]
        print(f"| {name} | " + " | ".join(values) + " |")


if __name__ == "__main__":
    main()
