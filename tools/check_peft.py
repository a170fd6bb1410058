#!/usr/bin/env python3
"""Proves that PEFT takes the adapters of `asr run`: for every family a tiny random model is built by transformers (5.17),
`asr run` trains an adapter on it for a few steps, PeftModel.from_pretrained (PEFT 0.21) loads it, and its logits are
compared with those of `asr forward --adapter`. Nothing is downloaded.

    tools/check_peft.py build/asr [--device cpu|cuda] [--only llava] [--keep DIR]

Checked for each model: base_model_name_or_path is what the run was given, and revision is null; every tensor of the
file lands in the PEFT model bit by bit and the PEFT model has no other; the adapter changes the logits; PEFT and asr
agree on them to TOLERANCE; the base can be loaded again by the name that the adapter gives. Exit status 1 otherwise.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from make_reference_outputs import CLASSES, build, inputs_of, randomize, save_model, write_side_files
from reference_models import FIXTURES

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

TOLERANCE = 1e-4  # largest difference of logits, relative to the largest logit; float32 on both sides
RUN = {"method": "vanilla", "stream.name": "world-10", "stream.tasks": "1", "stream.train": "8", "stream.val": "2",
       "stream.image_size": "32", "per_device_train_batch_size": "2", "num_train_epochs": "2", "learning_rate": "0.02",
       "lora_rank": "4", "lora_alpha": "8", "lora_dropout": "0", "attention.layers": "1", "attention.grid": "6",
       "analysis.samples": "2", "per_device_eval_batch_size": "2"}


class Problem(Exception):
    pass


def need(good, text):
    if not good:
        raise Problem(text)


def command(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    need(done.returncode == 0, f"asr {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}")


def make_model(spec, folder):
    import torch
    folder.mkdir(parents=True)
    torch.manual_seed(spec["seed"])
    model = build(spec)
    randomize(model, spec["seed"], spec.get("bf16"))
    save_model(model, folder, spec)
    write_side_files(spec, folder)
    return model


def train(program, folder, place, device):
    out = place / "run"
    settings = {**RUN, "model_name_or_path": folder, "output_dir": out, "device": device}
    config = place / "run.yaml"
    config.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    command(program, "run", config)
    return out / RUN["method"] / "adapter"


def check_config(adapter, given):
    config = json.loads((adapter / "adapter_config.json").read_text())
    name = config.get("base_model_name_or_path")
    need(name == given, f"base_model_name_or_path is {name!r}, not {given!r}")
    need("revision" in config and config["revision"] is None, f"revision is {config.get('revision')!r}, not null")


def load_peft(base, adapter):
    """The PEFT model, and proof that nothing of the file was left over or left out."""
    import torch
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file
    wrapped = PeftModel.from_pretrained(base, str(adapter)).eval()
    stored = load_file(str(adapter / "adapter_model.safetensors"))
    held = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    need(set(stored) == set(held), f"names differ: {sorted(set(stored) ^ set(held))[:4]}")
    for name, tensor in stored.items():
        need(torch.equal(tensor, held[name].cpu()), f"{name} differs after loading")
    need(any(tensor.abs().max() > 0 for name, tensor in stored.items() if "lora_B" in name), "the adapter is untrained")
    return wrapped, len(stored)


def asr_logits(program, folder, adapter, inputs, labels, place):
    from safetensors.torch import load_file, save_file
    tensors = {"in." + name: value.contiguous() for name, value in inputs.items()}
    tensors["in.labels"] = labels.contiguous()
    save_file(tensors, str(place / "in.safetensors"))
    command(program, "forward", "--model", folder, "--adapter", adapter, "-i", place / "in.safetensors",
            "-o", place / "out.safetensors")
    return load_file(str(place / "out.safetensors"))["logits"].float()


def check(spec, program, place, device):
    import torch
    import transformers
    from peft import PeftConfig
    folder = place / "model"
    make_model(spec, folder)
    adapter = train(program, folder, place, device)
    check_config(adapter, str(folder))
    kind = getattr(transformers, CLASSES[spec["family"]][1])
    named = PeftConfig.from_pretrained(str(adapter)).base_model_name_or_path
    base = kind.from_pretrained(named, dtype=torch.float32, attn_implementation="eager").eval()
    inputs, labels, _ = inputs_of(spec, spec["seed"])
    with torch.no_grad():
        plain = base(**inputs).logits
        wrapped, count = load_peft(base, adapter)
        ours = wrapped(**inputs).logits
    theirs = asr_logits(program, folder, adapter, inputs, labels, place)
    need(theirs.shape == ours.shape, f"logits have shapes {tuple(theirs.shape)} and {tuple(ours.shape)}")
    real = inputs["attention_mask"].bool()  # padding has no meaning
    largest = ours[real].abs().max().item()
    changed = (ours - plain)[real].abs().max().item() / largest
    apart = (ours - theirs)[real].abs().max().item() / largest
    need(changed > 100 * TOLERANCE, f"the adapter changes the logits by {changed:.1e} alone; train it longer")
    need(apart < TOLERANCE, f"logits of PEFT and of asr differ by {apart:.1e}")
    return f"{count} tensors, adapter changes logits by {changed:.1e}, PEFT and asr differ by {apart:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("asr", type=Path, help="the program")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="that asr run trains on")
    parser.add_argument("--only", help="one family")
    parser.add_argument("--keep", type=Path, help="folder for models and runs, which stay there")
    options = parser.parse_args()
    import peft
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__} transformers {transformers.__version__} peft {peft.__version__}", flush=True)
    program = str(options.asr.resolve())
    place = options.keep or Path(tempfile.mkdtemp(prefix="check_peft-"))
    failed = checked = 0
    for spec in FIXTURES:
        if not spec["tokenizer"] or (options.only and spec["family"] != options.only):
            continue
        checked += 1
        try:
            state = "ok      " + check(spec, program, (place / spec["name"]).resolve(), options.device)
        except Exception as error:
            failed += 1
            state = f"FAILED  {error}" if isinstance(error, Problem) else f"FAILED  {traceback.format_exc()}"
        print(f"{spec['name']:14} {state}", flush=True)
    if not options.keep:
        shutil.rmtree(place, ignore_errors=True)
    print(f"{checked} models, {failed} with problems")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
