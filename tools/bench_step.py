#!/usr/bin/python3
"""A LoRA training step of the built-in backbones in ordinary PyTorch, timed.

    tools/bench_step.py                                   # default and best settings, one JSON object
    tools/bench_step.py --against build/asr               # the C++ step in turns with both
    tools/bench_step.py --model cross                     # the smallest explicit cross-attention model

Written as a Python user would write it: nn.Module, F.linear, softmax attention (F.scaled_dot_product_attention where
this version of PyTorch has it), AdamW; the frozen vision tower runs without a graph. It shares no code with the program.
Use the distribution's interpreter, so that both sides run the same libtorch. Every side is a process of its own and
takes turns of a few steps with the others, so that a busy neighbour disturbs all alike; minimum and median are over all
timed steps of a side.
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time

BEST = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_TOP_PAD_": str(64 << 20)}
SIZES = {
    "decoder": dict(width=128, layers=4, heads=4, mlp=256, grid=8, patch=8, vision_layers=3, batch=32, text=14, cross=False),
    "cross": dict(width=32, layers=2, heads=4, mlp=64, grid=4, patch=8, vision_layers=1, batch=8, text=12, cross=True),
}
VOCABULARY, RANK, ALPHA = 256, 16, 32


def build(size):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class LoraLinear(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.scale = inner, ALPHA / RANK
            self.a = nn.Parameter(torch.randn(RANK, inner.in_features) / math.sqrt(inner.in_features))
            self.b = nn.Parameter(torch.zeros(inner.out_features, RANK))

        def forward(self, x):
            return self.inner(x) + F.linear(F.linear(x, self.a), self.b) * self.scale

    class RMSNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

    def split(x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def attend(q, k, v, bias):
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[-1]))
            if bias is not None:
                scores = scores + bias
            mixed = scores.softmax(-1) @ v
        return mixed.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)

    def rotate(x, cosine, sine):
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat((-b, a), -1) * sine

    class VisionLayer(nn.Module):
        def __init__(self, width, heads, mlp):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, mlp), nn.Linear(mlp, width)

        def forward(self, x):
            q, k, v = (split(part, self.heads) for part in self.qkv(self.norm1(x)).chunk(3, -1))
            x = x + self.o(attend(q, k, v, None))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class DecoderLayer(nn.Module):
        def __init__(self, width, heads, mlp, cross):
            super().__init__()
            self.heads = heads
            linear = lambda n_in, n_out: nn.Linear(n_in, n_out, bias=False)
            self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
            self.q, self.k, self.v, self.o = (linear(width, width) for _ in range(4))
            self.gate, self.up, self.down = linear(width, mlp), linear(width, mlp), linear(mlp, width)
            if cross:
                self.norm3 = RMSNorm(width)
                self.cq, self.ck, self.cv, self.co = (linear(width, width) for _ in range(4))

        def forward(self, x, cosine, sine, bias, visual):
            h = self.norm1(x)
            q, k, v = (split(f(h), self.heads) for f in (self.q, self.k, self.v))
            x = x + self.o(attend(rotate(q, cosine, sine), rotate(k, cosine, sine), v, bias))
            if visual is not None:
                q = split(self.cq(self.norm3(x)), self.heads)
                k, v = split(self.ck(visual), self.heads), split(self.cv(visual), self.heads)
                x = x + self.co(attend(q, k, v, None))
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self, width, layers, heads, mlp, grid, patch, vision_layers, cross, **_):
            super().__init__()
            self.grid, self.patch, self.heads, self.cross = grid, patch, heads, cross
            self.patches = nn.Linear(3 * patch * patch, width)
            self.positions = nn.Parameter(torch.randn(grid * grid, width) * 0.02)
            self.vision = nn.ModuleList(VisionLayer(width, heads, mlp) for _ in range(vision_layers))
            self.vision_norm = nn.LayerNorm(width)
            self.project_in, self.project_out = nn.Linear(width, width), nn.Linear(width, width)
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.layers = nn.ModuleList(DecoderLayer(width, heads, mlp, cross) for _ in range(layers))
            self.norm = RMSNorm(width)
            for p in self.parameters():
                p.requires_grad_(False)
            self.project_in, self.project_out = LoraLinear(self.project_in), LoraLinear(self.project_out)
            for layer in self.layers:
                for name in ("q", "v", "cq", "cv") if cross else ("q", "v"):
                    setattr(layer, name, LoraLinear(getattr(layer, name)))

        def see(self, pixels):
            b, g, p = pixels.shape[0], self.grid, self.patch
            cut = pixels.view(b, 3, g, p, g, p).permute(0, 2, 4, 1, 3, 5).reshape(b, g * g, 3 * p * p)
            with torch.no_grad():
                x = self.patches(cut) + self.positions
                for layer in self.vision:
                    x = layer(x)
                x = self.vision_norm(x)
            return self.project_out(F.gelu(self.project_in(x)))

        def forward(self, pixels, ids, mask, labels):
            visual, text = self.see(pixels), self.embedding(ids)
            count = 0 if self.cross else visual.shape[1]
            x = text if self.cross else torch.cat((visual, text), 1)
            seen = torch.cat((torch.ones(len(ids), count, dtype=torch.bool), mask), 1)
            total, half = x.shape[1], x.shape[2] // self.heads // 2
            angle = torch.arange(total)[:, None] * 10000 ** (-torch.arange(half) / half)
            angle = torch.cat((angle, angle), -1)
            visible = torch.ones(total, total, dtype=torch.bool).tril() & seen[:, None, None, :]
            bias = torch.zeros(visible.shape).masked_fill(~visible, -1e9)
            for layer in self.layers:
                x = layer(x, angle.cos(), angle.sin(), bias, visual if self.cross else None)
            x = self.norm(x)
            wanted = (labels[:, 1:] if self.cross else labels) >= 0
            before = x[:, :-1] if self.cross else x[:, count - 1:-1]
            target = labels[:, 1:] if self.cross else labels
            return F.cross_entropy(F.linear(before[wanted], self.embedding.weight), target[wanted])

    torch.manual_seed(1)
    model = Model(**size)
    batch, text = size["batch"], size["text"]
    pixels = torch.rand(batch, 3, size["grid"] * size["patch"], size["grid"] * size["patch"])
    ids = torch.randint(VOCABULARY, (batch, text))
    mask = torch.ones(batch, text, dtype=torch.bool)
    mask[::2, -1] = False
    labels = torch.full((batch, text), -1)
    labels[:, -4:-1] = ids[:, -4:-1]
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=1e-4)

    def step():
        loss = model(pixels, ids, mask, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def serve(model):
    """Reads a number of steps a line, answers with their times in milliseconds."""
    step = build(SIZES[model])
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


class Side:
    def __init__(self, name, command, settings):
        environment = {k: v for k, v in os.environ.items() if k not in BEST}
        environment.update(settings)
        self.name, self.times = name, []
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"bench_step.py: {self.name} ended before its steps were done; see above")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="decoder")
    parser.add_argument("--steps", type=int, default=50, help="timed steps a side")
    parser.add_argument("--turn", type=int, default=5, help="steps a turn")
    parser.add_argument("--against", help="the program: asr, which answers `bench step --serve MODEL` in the same way")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.model)
    if importlib.util.find_spec("torch") is None:
        sys.exit(f"bench_step.py: {sys.executable} has no torch; use the distribution's interpreter, /usr/bin/python3, with python3-torch")
    if options.against and not os.access(options.against, os.X_OK):
        sys.exit(f"bench_step.py: --against {options.against}: no program there; run make first")
    own = [sys.executable, os.path.abspath(__file__), "--serve", "--model", options.model]
    sides = [Side("python_default", own, {}), Side("python_best", own, BEST)]
    if options.against:
        sides.append(Side("program", [options.against, "bench", "step", "--serve", options.model], {}))
    for side in sides:
        side.run(options.turn)  # warm-up
    for _ in range(0, options.steps, options.turn):
        for side in sides:
            side.run(1)  # its caches and threads are back before the clock counts
            side.times += side.run(options.turn)
    result = {"model": options.model, "steps": options.steps, "settings_best": BEST}
    for side in sides:
        side.close()
        result[side.name] = {"min_ms": round(min(side.times), 2), "median_ms": round(statistics.median(side.times), 2)}
    if options.against:
        for name in ("python_default", "python_best"):
            result["ratio_to_" + name] = {key: round(result[name][key] / result["program"][key], 2) for key in ("min_ms", "median_ms")}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
