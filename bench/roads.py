#!/usr/bin/env python3
"""What roads to a faster step would give that the program does not take, on one GPU: a measured line each.

usage: bench/roads.py [--rows 10240] [--width 4096] [--mlp 11008] [--layers 32] [--calls 40] [--json FILE]

Joined products of q, k, v and of gate, up against one product each, forward and backward, with and without the copies
that joining needs; the norm that a node a layer would compute again; cross-entropy of the answers' logits, which no
fused form can make cheaper than nothing. Milliseconds are medians by the device's clock, and of all layers.
Needs torch alone.
"""
import argparse
import json
import pathlib

import torch

ANSWERS = 64
VOCABULARY = 32064


def milliseconds(work, calls):
    for _ in range(3):
        work()
    times = []
    for _ in range(calls):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def drawn(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def joined_products(given, outs):
    """Products of x with several weights: apart, joined, and joined with what is copied for or after it."""
    rows, width, total = given.rows, given.width, sum(outs)
    x, joined = drawn(rows, width), drawn(total, width) * width**-0.5
    parts = joined.split(outs)
    results = [drawn(rows, out) for out in outs]
    together, grad, dx = drawn(rows, total), drawn(rows, total), drawn(rows, width)
    grads = [part.contiguous() for part in grad.split(outs, 1)]

    def forward_apart():
        for part, result in zip(parts, results):
            torch.mm(x, part.t(), out=result)

    def forward_joined():
        torch.mm(x, joined.t(), out=together)

    def forward_copied():
        forward_joined()
        for part, result in zip(together.split(outs, 1), results):
            result.copy_(part)

    def backward_apart():
        torch.mm(grads[0], parts[0], out=dx)
        for pull, part in zip(grads[1:], parts[1:]):
            dx.addmm_(pull, part)

    def backward_joined():
        torch.mm(grad, joined, out=dx)

    def backward_copied():
        torch.cat(grads, 1, out=grad)
        backward_joined()

    sides = (forward_apart, forward_joined, forward_copied, backward_apart, backward_joined, backward_copied)
    times = {side.__name__: [] for side in sides}
    for _ in range(3):  # in turns: a card's clock changes while it works
        for side in sides:
            times[side.__name__].append(milliseconds(side, given.calls))
    return {name: given.layers * sorted(found)[1] for name, found in times.items()}


def computed_again(given):
    """What a node a layer would do twice, and how much it would not keep: the norm before attention, whose result is
    there for the adapters of q and v. The other norm's result and that of the gate are not kept anyway, since frozen
    linears keep nothing of what they read (src/ops/adapted_linear.cpp)."""
    x, scale = drawn(given.rows, given.width), drawn(given.width)
    norm = milliseconds(lambda: torch.nn.functional.rms_norm(x, (given.width,), scale), given.calls)
    return {"attention_norm": given.layers * norm, "gib_counted": given.layers * x.numel() * x.element_size() / 2**30}


def cross_entropy(given):
    logits = drawn(ANSWERS, VOCABULARY).requires_grad_()
    labels = torch.randint(0, VOCABULARY, (ANSWERS,), device="cuda")

    def step():
        logits.grad = None
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()

    return {"forward_and_backward": milliseconds(step, given.calls)}


def main():
    usage = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rows", 10240), ("width", 4096), ("mlp", 11008), ("layers", 32), ("calls", 40)):
        usage.add_argument(f"--{name}", type=int, default=value)
    usage.add_argument("--json", help="write the numbers here too")
    given = usage.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("roads: needs a GPU")
    torch.manual_seed(0)
    results = {"q, k, v": joined_products(given, [given.width] * 3), "gate, up": joined_products(given, [given.mlp] * 2),
               "computed again": computed_again(given), "cross-entropy of the answers": cross_entropy(given)}
    for road, numbers in results.items():
        print(road + ": " + ", ".join(f"{name} {value:.2f}" for name, value in numbers.items()), flush=True)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
