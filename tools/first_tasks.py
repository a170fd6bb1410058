#!/usr/bin/env python3
"""Cuts finished runs down to their first N tasks, in place: the rows and columns of matrix.csv, and the scores of metrics.json
by `asr matrix`. Later stages cannot have influenced those rows. (Joint runs have one row; its other columns are dropped.)
How results/world-cit came to be:
    tar xzf results/world-cit-eight-tasks.tar.gz -C results && tools/first_tasks.py 7 results/world-cit/*/*/*
usage: tools/first_tasks.py N RUN_FOLDER...        (environment ASR: the program, default build/asr)
"""
import json, os, subprocess, sys

count, folders = int(sys.argv[1]), sys.argv[2:]
for folder in folders:
    metrics, matrix = folder + "/metrics.json", folder + "/matrix.csv"
    if not os.path.isfile(metrics):
        continue
    run = json.load(open(metrics))
    total = len(run["tasks"])
    if total <= count:
        continue
    joint = run["method"] == "joint"
    rows = [line.rstrip("\n").split(",")[: count + 1] for line in open(matrix)]
    rows = [rows[0], rows[1], [str(count)] + rows[2][1:]] if joint else rows[: count + 2]
    with open(matrix, "w") as out:
        out.write("".join(",".join(row) + "\n" for row in rows))
    mean = lambda row: sum(map(float, row[1:])) / count
    scores = {"zero_shot": mean(rows[1])}
    if joint:
        scores.update({"AP": mean(rows[2]), "Last": mean(rows[2]), "MFT": mean(rows[2])})
        scores.update({key: None for key in ("AF", "AF_vqacl", "Avg", "BWT")})
    else:
        said = subprocess.run([os.environ.get("ASR", "build/asr"), "matrix", matrix, "--json"], check=True, capture_output=True)
        said = json.loads(said.stdout)
        scores.update({key: said[key] for key in run["scores"] if key != "zero_shot"})
    run.update(scores=scores, tasks=run["tasks"][:count], skills=[],
               note=f"scores after stage {count} of {total}; {', '.join(run['tasks'][count:])} left out; cost is of all {total}")
    with open(metrics, "w") as out:
        out.write(json.dumps(run, indent=1) + "\n")
