#!/usr/bin/env python3
"""The peer of `asr bench step --backbone`: the same LoRA step with transformers and PEFT, random weights, one GPU.

usage: bench/hf_step.py [--program build-cuda/asr] [--batch 16] [--text-tokens 64] [--steps 12] [--asr] [--json FILE]

Both sides: the same tokens, adapters (rank 16 on q and v of the language model and on the projector, float32, dropout
0.05), logits at answer positions alone, AdamW. The peer runs under autocast to bfloat16 with sdpa and fused AdamW. With
--asr it returns attention maps (attn_implementation="eager") and adds a spectral loss, as users of transformers would.
With --program our side is measured first, in the same call, and ratios are printed.
"""
import argparse
import json
import pathlib
import subprocess
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForImageTextToText

SHAPES = pathlib.Path(__file__).resolve().parent.parent / "assets/model-shapes.json"
ANSWER = 4
TAPPED = 4
ROWS = 8


def shape_named(short):
    for name, entry in json.loads(SHAPES.read_text()).items():
        if short in (name, entry.get("short")):
            return entry["config"]
    raise SystemExit(f"hf_step: no sizes of a model '{short}' in {SHAPES}")


def model_of(config, attention):
    config = dict(config)
    kind = config.pop("model_type")
    made = AutoConfig.for_model(kind, **config)
    made._attn_implementation = attention
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = AutoModelForImageTextToText.from_config(made, attn_implementation=attention)
    torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05,
                      target_modules=r".*language_model.*\.(q_proj|v_proj)|.*multi_modal_projector\.linear_\d")
    return get_peft_model(model, lora).train(), made


def batch_of(made, size, text_tokens):
    generator = torch.Generator("cuda").manual_seed(0)
    image = made.image_token_id if hasattr(made, "image_token_id") else made.image_token_index
    patches = (made.vision_config.image_size // made.vision_config.patch_size) ** 2
    words = torch.randint(5, 31000, (size, text_tokens), generator=generator, device="cuda")
    ids = torch.cat([torch.full((size, patches), image, device="cuda"), words], 1)
    side = made.vision_config.image_size
    pixels = torch.randn(size, 3, side, side, generator=generator, device="cuda", dtype=torch.bfloat16)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}, patches


class SpectralLoss:
    """Radial and angular histograms of the power of mean maps, against 15 prototypes: the shape of ASR's loss."""

    def __init__(self, side):
        u, v = torch.meshgrid(torch.fft.fftfreq(side), torch.fft.fftfreq(side), indexing="ij")
        radius = (u**2 + v**2).sqrt()
        radial = (radius / radius.max() * 8).long().clamp_max(7).flatten()
        angular = ((torch.atan2(v, u) + torch.pi) / (2 * torch.pi) * 8).long().clamp_max(7).flatten()
        one_hot = torch.nn.functional.one_hot
        self.bins = torch.cat([one_hot(radial, 8), one_hot(angular, 8)], 1).float().cuda()
        self.mean = torch.rand(15, 32, device="cuda")
        self.precision = 1 / (torch.rand(15, 32, device="cuda") + 0.1)
        self.side = side

    def __call__(self, attentions, patches):
        rows = torch.stack([a[:, :, patches:patches + ROWS, :patches] for a in attentions[-TAPPED:]], 1).float()
        maps = rows / rows.sum(-1, keepdim=True)
        maps = maps.mean(3).unflatten(-1, (self.side, self.side))
        power = torch.fft.fft2(maps, norm="ortho").abs().square().flatten(-2)
        spectra = power @ self.bins
        spectra = torch.cat([spectra[..., :8] / spectra[..., :8].sum(-1, keepdim=True),
                             spectra[..., 8:] / spectra[..., 8:].sum(-1, keepdim=True)], -1).flatten(1, 2)
        phi = torch.cat([spectra.mean(1), spectra.std(1)], -1)
        return ((phi[:, None] - self.mean).square() * self.precision).mean()


def ceiling():
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return 2 * 8192**3 / (sorted(times)[len(times) // 2] * 1e-3) / 1e12


def measure(config, given, attention, with_asr):
    model, made = model_of(config, attention)
    batch, patches = batch_of(made, given.batch, given.text_tokens)
    spectral = SpectralLoss(int(patches**0.5)) if with_asr else None
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    labels = batch["input_ids"][:, -ANSWER:].flatten()
    times = []
    torch.cuda.reset_peak_memory_stats()
    for _ in range(given.steps + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(**batch, logits_to_keep=ANSWER + 1, use_cache=False, output_attentions=with_asr)
        logits = out.logits[:, :-1].float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        if spectral:
            loss = loss + 0.5 * spectral(out.attentions, patches)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        loss.item()
        times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[3:])
    tokens = batch["input_ids"].numel()
    return {"median_ms": times[len(times) // 2], "min_ms": times[0], "tokens_a_second": tokens / times[len(times) // 2] * 1e3,
            "allocated_gib": torch.cuda.max_memory_allocated() / 2**30,
            "reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
            "trained": sum(p.numel() for p in model.parameters() if p.requires_grad)}


def ours(given):
    command = [given.program, "bench", "step", "--backbone", given.backbone, "--random-weights", "--batch",
               str(given.batch), "--text-tokens", str(given.text_tokens), "--calls", str(given.steps), "--json"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {side["step"]: side for side in json.loads(said)["results"]}


def print_ratios(mine, results):
    print("| step | ours, ms | peer, ms | ratio | ours, GiB | peer, GiB | ratio |\n|---|---:|---:|---:|---:|---:|---:|")
    for name, side in (("plain", "plain"), ("asr", "asr, spectral")):
        if name not in results:
            continue
        a, b = mine[side], results[name]
        print(f"| {side} | {a['median_ms']:.0f} | {b['median_ms']:.0f} | {b['median_ms'] / a['median_ms']:.2f} | "
              f"{a['allocated_gib']:.1f} | {b['allocated_gib']:.1f} | {a['allocated_gib'] / b['allocated_gib']:.2f} |")


def main():
    usage = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usage.add_argument("--backbone", default="llava-1.5-7b", choices=["llava-1.5-7b"],
                       help="the one whose parts this script knows")
    usage.add_argument("--program", help="our program, to be measured first")
    usage.add_argument("--batch", type=int, default=16)
    usage.add_argument("--text-tokens", type=int, default=64)
    usage.add_argument("--steps", type=int, default=12)
    usage.add_argument("--asr", action="store_true", help="also a step that returns attention maps and uses them")
    usage.add_argument("--json", help="write the numbers here too")
    given = usage.parse_args()
    config = shape_named(given.backbone)
    mine = ours(given) if given.program else {}
    results = {"ceiling_tflops": ceiling(), "plain": measure(config, given, "sdpa", False)}
    torch.cuda.empty_cache()
    if given.asr:
        results["asr"] = measure(config, given, "eager", True)
    for name, numbers in results.items():
        print(name, numbers, flush=True)
    if mine:
        results["ours"] = mine
        print_ratios(mine, results)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
