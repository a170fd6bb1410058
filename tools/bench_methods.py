#!/usr/bin/env python3
"""What a step of each method costs beside a plain one: short runs of all of them in turns, so that what disturbs one
disturbs all. Prints the median step of the second stage, since most methods do nothing in the first, and its ratio to
vanilla's. What a method does before and after a stage is not in it, nor are the steps of phases of its own.

usage: tools/bench_methods.py CONFIG... [--methods a,b,...] [--turns N] [--steps N] [--set KEY=VALUE]...
       [--together] [--program FILE]

  tools/bench_methods.py configs/world-hue.yaml --set stream.tasks=2 --set stream.val=16
With --together one process runs all methods of a turn, for models that take long to load.
Only Python's standard library is used.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PLAIN = "vanilla"


def parsed():
    usage = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    usage.add_argument("config", nargs="+", help="YAML files of options, as for 'asr run'")
    usage.add_argument("--methods", default="", help="separated by commas (default: all that 'asr methods' knows)")
    usage.add_argument("--turns", type=int, default=3, help="runs of each method")
    usage.add_argument("--steps", type=int, default=60, help="of each stage")
    usage.add_argument("--together", action="store_true", help="all methods of a turn in one process")
    usage.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one option, after all files")
    usage.add_argument("--program", default=os.environ.get("ASR", "build/asr"), help="default: $ASR or build/asr")
    return usage.parse_args()


def known_methods(program):
    said = subprocess.run([program, "methods", "--json"], check=True, capture_output=True, text=True)
    return [method["name"] for method in json.loads(said.stdout)["methods"]]


def steps_of_second_stage(given, methods, folder):
    """For each method milliseconds of every step, from the log's times; none if its run failed."""
    command = [given.program, "--threads", "1", "run", *given.config, "--set", f"method=[{','.join(methods)}]",
               "--set", f"max_stage_steps={given.steps}", "--set", f"output_dir={folder}", "--set", "logging_steps=1"]
    for assignment in given.set:
        command += ["--set", assignment]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        print(f"bench_methods: {', '.join(methods)}: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    out = {}
    for log in pathlib.Path(folder).glob("**/log.jsonl"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        times = [line["elapsed_time"] for line in lines
                 if line.get("stage") == 2 and "current_steps" in line and "group" not in line]
        steps = [1000 * (after - before) for before, after in zip(times, times[1:])]
        name = methods[0] if len(methods) == 1 else log.parent.name.split("-seed")[0]
        if steps:
            out[name] = steps
    return out


def main():
    given = parsed()
    methods = given.methods.split(",") if given.methods else known_methods(given.program)
    if PLAIN not in methods:
        methods.insert(0, PLAIN)
    times = {method: [] for method in methods}
    for turn in range(given.turns):
        for group in [methods] if given.together else [[method] for method in methods]:
            with tempfile.TemporaryDirectory() as folder:
                found = steps_of_second_stage(given, group, os.path.join(folder, "run"))
            for method, steps in found.items():
                times[method].append(statistics.median(steps))
                print(f"bench_methods: turn {turn + 1}, {method}: {times[method][-1]:.2f} ms", file=sys.stderr)
    if not times[PLAIN]:
        sys.exit(f"bench_methods: no run of {PLAIN} came to its second stage")
    plain = statistics.median(times[PLAIN])
    print(f"| method | ms a step | times {PLAIN} |\n|---|---:|---:|")
    for method in methods:
        if times[method]:
            middle = statistics.median(times[method])
            print(f"| `{method}` | {middle:.1f} | {middle / plain:.2f} |")


if __name__ == "__main__":
    main()
