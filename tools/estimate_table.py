#!/usr/bin/env python3
"""The table of docs/runbook.md: what ASR would take in every setting of configs/paper/ on every backbone, as `asr doctor --assume` estimates it.

    tools/estimate_table.py build/asr [--gpu H100] [--tflops 150]
"""
import argparse
import json
import subprocess

# Effective batch of a setting, batch of a forward pass of a backbone.
SETTINGS = {"vqav2-10": 16, "vqacl": 80, "nextqa": 80, "clt-vqa": 80, "coin": 16, "ucit": 96}
BACKBONES = {"llava-1.5-7b": 8, "qwen2.5-vl-7b": 4, "internvl3-8b": 4, "instructblip-7b": 8}


def doctor(program, setting, backbone, processes, more):
    command = [program, "doctor", f"configs/paper/{setting}.yaml", f"configs/backbones/{backbone}.yaml", "--assume", "--json",
               "--processes", str(processes), "--set", "output_dir=out", "--set", "method=asr", "--set",
               f"gradient_accumulation_steps={SETTINGS[setting] // BACKBONES[backbone]}"]
    done = subprocess.run(command + more, capture_output=True, text=True)
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if c["verdict"] == "FAILS" and c["check"] != "output_dir"]
    assert not failed, (command, failed)
    return report["estimate"]


def hours(seconds):
    return f"{seconds / 3600:.0f}" if seconds >= 36000 else f"{seconds / 3600:.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--gpu", default="A100-80GB")
    parser.add_argument("--tflops")
    arguments = parser.parse_args()
    more = []
    for name in ("gpu", "tflops"):
        if getattr(arguments, name):
            more += ["--" + name, getattr(arguments, name)]
    print("| setting | backbone | tokens: visual + text | steps | GB a GPU | training | answers | memory pass | in all, 1 GPU"
          " | 8 GPUs |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        for backbone in BACKBONES:
            one, eight = (doctor(arguments.program, setting, backbone, n, more) for n in (1, 8))
            asr, shared = one["methods"][0], eight["methods"][0]
            tokens = one["tokens"]
            print(f"| {setting} | {backbone} | {tokens['visual']:.0f} + {tokens['text']:.0f} | {asr['steps']:,}"
                  f" | {one['memory_bytes']['peak'] / 1e9:.0f} | {hours(asr['training_seconds'])}"
                  f" | {hours(asr['evaluation_seconds'] + asr['zero_shot_seconds'])} | {hours(asr['memory_pass_seconds'])}"
                  f" | {hours(asr['seconds'])} | {hours(shared['seconds'])} |")


if __name__ == "__main__":
    main()
