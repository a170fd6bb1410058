#!/usr/bin/env python3
"""Reference cases for the spectral pipeline, straight from its definitions.

An independent implementation in double precision: standard library only, the DFT by its defining
sum, gradients by fourth-order central differences.

    make_cases.py --check DIR...   recompute existing case folders and report the errors
    make_cases.py -o DIR           write small cases with a fixed seed

A case folder holds case.json (options, scalars), inputs.safetensors and expected.safetensors.
"""
import argparse
import json
import math
import random
import struct
import sys
import time
from collections import namedtuple
from fractions import Fraction
from operator import mul
from pathlib import Path
from statistics import mean, variance

Plane = namedtuple("Plane", "radius angle radial_bin angular_bin radial_cells angular_cells basis")
Prototype = namedtuple("Prototype", "skill mean variance angular")

ANGULAR_FLOOR = 1e-8
PEAK_TIE = 1e-9
EDGE_TIE = 1e-9
TOLERANCE = 1e-9
GRADIENT_TOLERANCE = 1e-6
GRADIENT_WORK = 2e8   # entries times cells squared; beyond it a check samples the entries
STEP = 1e-5           # of the summed attention; wider steps cross the kink of a small std
GEOMETRY_STEP = 3e-4
SEED = 20240607
SKILLS = 4
STAGE = ("descriptor", "angular", "posterior")
WIDTH = 6             # of the pooled hidden states

COMMON = dict(radial_bins=8, angular_bins=8, eps=1e-8, bin_statistic="sum", kl="half",
              floor_at="update", lambda_ang=0.1, tau_mah=1.0, tau_skill=0.2, alpha=0.9)
PRESETS = {  # paper, reference, sound
    "frequency": ("raw", "centered", "centered"), "bin_edge": ("left", "right", "left"),
    "dc": ("keep", "keep", "drop"), "peak_dc": ("include", "include", "exclude"),
    "peak_power": ("raw", "fraction", "fraction"), "fft_norm": ("backward", "ortho", "ortho"),
    "token_norm": ("yes", "no", "yes"), "second_moment": ("std", "variance", "std"),
    "eps_mode": ("add", "clamp", "add"), "mahalanobis": ("sum", "mean", "mean"),
    "confidence": ("gradient", "gradient", "detached"),
    "unseen_skills": ("skip", "renormalize", "skip"), "covariance_floor": (1e-4, 1e-4, 1e-6)}
PAPER, REFERENCE, SOUND = ({**COMMON, **{name: row[i] for name, row in PRESETS.items()}}
                           for i in range(3))

# name, shape, skills with a prototype, options
CASES = [
    ("paper-4x5", [2, 1, 2, 3, 4, 5], (0, 1, 2), dict(PAPER, tau_mah=54.0)),
    ("reference-5x4", [2, 2, 1, 2, 5, 4], (0, 2), REFERENCE),
    ("sound-4x4", [3, 1, 2, 2, 4, 4], (0, 1, 3), SOUND),
    ("sound-one-head-3x7", [2, 1, 1, 3, 3, 7], (1, 2),
     dict(SOUND, radial_bins=5, angular_bins=6)),
    # eps above the histogram sums, so that the clamp is what divides
    ("mixed-clamp-6x6", [1, 1, 2, 2, 6, 6], (0, 1),
     dict(SOUND, bin_statistic="mean", kl="sum", eps_mode="clamp", eps=0.15,
          confidence="gradient")),
    ("mixed-floor-use-5x5", [2, 1, 3, 2, 5, 5], (0, 1, 2, 3),
     dict(SOUND, floor_at="use", covariance_floor=0.05, confidence="one", angular_bins=5)),
    ("mixed-raw-4x6", [2, 1, 2, 2, 4, 6], (1, 3),
     dict(PAPER, bin_edge="right", dc="drop", peak_dc="exclude", second_moment="variance",
          radial_bins=5, angular_bins=6, tau_mah=20.0, eps=0.01)),
    ("mixed-renormalize-3x4", [3, 2, 1, 3, 3, 4], (0, 3),
     dict(SOUND, dc="keep", unseen_skills="renormalize", token_norm="no", peak_power="raw",
          confidence="gradient", tau_mah=2.0, tau_skill=0.25, alpha=0.5, lambda_ang=1.0)),
]


# ---- tensors are nested lists

def flat(values):
    return [x for row in values for x in flat(row)] if isinstance(values, list) else [values]


def shape_of(values):
    return [len(values)] + shape_of(values[0]) if isinstance(values, list) and values else []


def reshape(values, shape):
    for size in reversed(shape[1:]):
        values = [values[i:i + size] for i in range(0, len(values), size)]
    return values


def read_tensors(path):
    raw = path.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            layout = f"<{math.prod(entry['shape'])}{dict(F64='d', I64='q')[entry['dtype']]}"
            data = struct.unpack_from(layout, raw, start + entry["data_offsets"][0])
            tensors[name] = reshape(list(data), entry["shape"])
    return tensors


def write_tensors(path, tensors):
    header, body = {"__metadata__": {}}, b""
    for name, values in tensors.items():
        data, begin = flat(values), len(body)
        code, dtype = ("q", "I64") if isinstance(data[0], int) else ("d", "F64")
        body += struct.pack(f"<{len(data)}{code}", *data)
        header[name] = dict(dtype=dtype, shape=shape_of(values), data_offsets=[begin, len(body)])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


# ---- frequency plane

def bin_of(position, count, opt, wrap):
    """The bin of a position given in units of one bin."""
    if abs(position - round(position)) < EDGE_TIE:
        position = round(position)
    index = math.floor(position) if opt["bin_edge"] == "left" else math.ceil(position) - 1
    return index % count if wrap else min(max(index, 0), count - 1)


def dft_basis(height, width):
    """(index, conjugate index, cosines, sines), one entry for each conjugate pair."""
    basis = []
    for u in range(height):
        for v in range(width):
            index, conjugate = u * width + v, -u % height * width + -v % width
            if index <= conjugate:
                phases = [2 * math.pi * (u * y % height / height + v * x % width / width)
                          for y in range(height) for x in range(width)]
                basis.append((index, conjugate, list(map(math.cos, phases)),
                              list(map(math.sin, phases))))
    return basis


def frequency_plane(height, width, opt):
    def frequency(k, n):
        return (k - n if opt["frequency"] == "centered" and 2 * k >= n else k) / n

    points = [(frequency(u, height), frequency(v, width))
              for u in range(height) for v in range(width)]
    largest = max(math.hypot(fu, fv) for fu, fv in points)
    radius = [math.hypot(fu, fv) / largest for fu, fv in points]
    angle = [math.atan2(fv, fu) for fu, fv in points]
    k, m = opt["radial_bins"], opt["angular_bins"]
    radial_bin = [bin_of(r * k, k, opt, False) for r in radius]
    angular_bin = [bin_of((a + math.pi) / (2 * math.pi) * m, m, opt, True) for a in angle]
    used = range(1 if opt["dc"] == "drop" else 0, len(points))
    return Plane(radius, angle, radial_bin, angular_bin,
                 [[i for i in used if radial_bin[i] == b] for b in range(k)],
                 [[i for i in used if angular_bin[i] == b] for b in range(m)],
                 dft_basis(height, width))


# ---- descriptor

def divisor(total, opt):
    return total + opt["eps"] if opt["eps_mode"] == "add" else max(total, opt["eps"])


def normalised(values, opt):
    total = divisor(math.fsum(values), opt)
    return [x / total for x in values]


def token_weights(functional, valid):
    used = [f != 0 and v != 0 for f, v in zip(functional, valid)]
    if not any(used):
        used = [v != 0 for v in valid]
    return [x / sum(used) for x in used]


def head_map(tokens, weights, opt):
    chosen = [(w, normalised(t, opt) if opt["token_norm"] == "yes" else t)
              for w, t in zip(weights, tokens) if w]
    return normalised([math.fsum(w * x for (w, _), x in zip(chosen, cell))
                       for cell in zip(*(t for _, t in chosen))], opt)


def power_of(cells, plane, opt):
    power = [0.0] * len(cells)
    scale = 1 / len(cells) if opt["fft_norm"] == "ortho" else 1.0
    for index, conjugate, cosines, sines in plane.basis:
        re, im = math.fsum(map(mul, cells, cosines)), math.fsum(map(mul, cells, sines))
        power[index] = power[conjugate] = (re * re + im * im) * scale
    return power


def histogram(power, cells_of_bin, opt):
    values = [math.fsum(power[i] for i in cells) for cells in cells_of_bin]
    if opt["bin_statistic"] == "mean":
        values = [x / max(len(cells), 1) for x, cells in zip(values, cells_of_bin)]
    return normalised(values, opt)


def peak_of(power, opt):
    first = 1 if opt["peak_dc"] == "exclude" else 0
    limit = (1 - PEAK_TIE) * max(power[first:])
    return next(i for i in range(first, len(power)) if power[i] >= limit)


def head_descriptor(power, peak, plane, opt):
    radial = histogram(power, plane.radial_cells, opt)
    angular = histogram(power, plane.angular_cells, opt)
    centre = divisor(math.fsum(angular) / len(angular), opt)
    top = power[peak]
    if opt["peak_power"] == "fraction":
        top /= divisor(math.fsum(power), opt)
    return radial + angular + [x / centre for x in angular] + [
        plane.radius[peak], plane.angle[peak], top]


def column_means(rows):
    return [math.fsum(column) / len(rows) for column in zip(*rows)]


def aggregate(heads, opt):
    """Descriptor, radial and angular profile of one sample from its layer-head descriptors."""
    centre = column_means(heads)
    second = column_means([[(x - c) ** 2 for x, c in zip(head, centre)] for head in heads])
    if opt["second_moment"] == "std":
        second = list(map(math.sqrt, second))
    k, m = opt["radial_bins"], opt["angular_bins"]
    return centre + second, centre[:k], centre[k:k + m]


class Spectra:
    """Everything from the attention to the descriptors, kept for the differences."""

    def __init__(self, attention, functional, valid, opt):
        self.shape, self.opt = shape_of(attention), opt
        self.plane = frequency_plane(*self.shape[-2:], opt)
        self.tokens = [[[flat(token) for token in head] for layer in sample for head in layer]
                       for sample in attention]
        self.weights = list(map(token_weights, functional, valid))
        self.maps = [[head_map(head, w, opt) for head in sample]
                     for sample, w in zip(self.tokens, self.weights)]
        self.power = [[power_of(x, self.plane, opt) for x in sample] for sample in self.maps]
        self.peak = [[peak_of(p, opt) for p in sample] for sample in self.power]
        self.heads = [[head_descriptor(p, i, self.plane, opt) for p, i in zip(*pair)]
                      for pair in zip(self.power, self.peak)]
        self.samples = [aggregate(heads, opt) for heads in self.heads]

    def moved(self, b, j, t, cell, delta):
        """Descriptor and angular profile of sample b with one attention entry moved."""
        tokens = list(self.tokens[b][j])
        tokens[t] = list(tokens[t])
        tokens[t][cell] += delta
        power = power_of(head_map(tokens, self.weights[b], self.opt), self.plane, self.opt)
        heads = list(self.heads[b])
        heads[j] = head_descriptor(power, self.peak[b][j], self.plane, self.opt)
        phi, _, angular = aggregate(heads, self.opt)
        return phi, angular


# ---- memory

def stage_moments(stage, skill, opt):
    rows = [i for i, p in enumerate(stage["posterior"]) if p[skill] > opt["tau_skill"]]
    if not rows:
        return None
    # exact fractions, rounded once
    phi, angular = ([list(map(Fraction, c)) for c in zip(*(stage[k][i] for i in rows))]
                    for k in ("descriptor", "angular"))
    spread = [float(variance(c)) if len(rows) > 1 else 0.0 for c in phi]
    if opt["floor_at"] == "update":
        spread = [max(x, opt["covariance_floor"]) for x in spread]
    return Prototype(skill, [float(mean(c)) for c in phi], spread,
                     [float(mean(c)) for c in angular])


def updated(memory, stage, opt):
    """The memory, ascending by skill, after one stage."""
    def blend(old, new):
        return [opt["alpha"] * x + (1 - opt["alpha"]) * y for x, y in zip(old, new)]

    result = {p.skill: p for p in memory}
    for skill in range(len(stage["posterior"][0])):
        new, old = stage_moments(stage, skill, opt), result.get(skill)
        if new and old:
            new = Prototype(skill, *(blend(x, y) for x, y in zip(old[1:], new[1:])))
        if new:
            result[skill] = new
    return [result[skill] for skill in sorted(result)]


def memory_tensors(prefix, memory):
    return {f"{prefix}.{field}": [getattr(p, field) for p in memory]
            for field in Prototype._fields}


# ---- losses

def kl(p, q):
    return math.fsum(x * math.log(x / y) for x, y in zip(p, q) if x > 0)


def distance(phi, prototype, opt):
    total = math.fsum((x - m) ** 2 / max(v, opt["covariance_floor"])
                      for x, m, v in zip(phi, prototype.mean, prototype.variance))
    return total / len(phi) if opt["mahalanobis"] == "mean" else total


def divergence(angular, prototype, opt):
    def distribution(values):
        values = [max(x, ANGULAR_FLOOR) for x in normalised(values, opt)]
        total = math.fsum(values)
        return [x / total for x in values]

    p, q = distribution(angular), distribution(prototype.angular)
    return (kl(p, q) + kl(q, p)) * (0.5 if opt["kl"] == "half" else 1.0)


def sample_loss(phi, angular, posterior, memory, opt, weight=None):
    """(distances, divergences, weight, loss); a weight that is given stays as it is."""
    if not memory:
        return [], [], 1.0, 0.0
    pi = [posterior[p.skill] for p in memory]
    if opt["unseen_skills"] == "renormalize":
        total = math.fsum(pi)
        pi = [x / total if total > 0 else 0.0 for x in pi]
    distances = [distance(phi, p, opt) for p in memory]
    divergences = [divergence(angular, p, opt) for p in memory]
    if weight is None:
        one = opt["confidence"] == "one"
        weight = 1.0 if one else math.exp(-min(distances) / opt["tau_mah"])
    total = math.fsum(w * (d + opt["lambda_ang"] * k)
                      for w, d, k in zip(pi, distances, divergences))
    return distances, divergences, weight, weight * total


def similarity_rows(image, text):
    """Row softmax of the cosines."""
    def unit(v):
        return [x / math.sqrt(math.fsum(y * y for y in v)) for x in v]

    text = [unit(t) for t in text]
    rows = [[math.exp(math.fsum(map(mul, unit(i), t))) for t in text] for i in image]
    return [[x / math.fsum(row) for x in row] for row in rows]


def geometry_loss(image, text, reference):
    rows = similarity_rows(image, text)
    return math.fsum(kl(p, q) + kl(q, p) for p, q in zip(rows, reference)) / (2 * len(rows))


# ---- gradients

def central_difference(f, h):
    return (f(-2 * h) - 8 * f(-h) + 8 * f(h) - f(2 * h)) / (12 * h)


def attention_gradient(spectra, posterior, memory, weights, stride, step):
    """The gradient of the mean loss; None but for every stride-th entry."""
    opt = spectra.opt
    places = [(b, j, t, cell) for b, sample in enumerate(spectra.tokens)
              for j, head in enumerate(sample) for t, token in enumerate(head)
              for cell in range(len(token))]

    def entry(b, j, t, cell):
        if not spectra.weights[b][t]:
            return 0.0
        fixed = weights[b] if opt["confidence"] == "detached" else None
        return central_difference(
            lambda delta: sample_loss(*spectra.moved(b, j, t, cell, delta), posterior[b],
                                      memory, opt, fixed)[3],
            step * math.fsum(spectra.tokens[b][j][t])) / len(posterior)

    return reshape([None if i % stride else entry(*place) for i, place in enumerate(places)],
                   spectra.shape)


def geometry_gradient(loss, values, step):
    def entry(i, k):
        def moved(delta):
            rows = [list(row) for row in values]
            rows[i][k] += delta
            return loss(rows)
        return central_difference(moved, step)

    return [[entry(i, k) for k in range(len(values[0]))] for i in range(len(values))]


# ---- scores and diagnostics

def score_metrics(score):
    """[AP, AF, Last, Avg] of a lower triangular score matrix."""
    n = len(score)
    last = math.fsum(score[-1]) / n
    forgetting = [max(score[a][b] for a in range(b, n)) - score[-1][b] for b in range(n - 1)]
    average = math.fsum(math.fsum(row[:a + 1]) / (a + 1) for a, row in enumerate(score)) / n
    return [last, math.fsum(forgetting) / max(n - 1, 1), last, average]


def jensen_shannon(p, q):
    middle = [(x + y) / 2 for x, y in zip(p, q)]
    return (kl(p, middle) + kl(q, middle)) / 2


def gaussian_w2(mean_t, variance_t, mean_m, variance_m):
    """W2 of two diagonal Gaussians, whitened by the second."""
    return math.sqrt(math.fsum(
        (mt - mm) ** 2 / vm + (math.sqrt(vt / vm) - 1) ** 2
        for mt, vt, mm, vm in zip(mean_t, variance_t, mean_m, variance_m)))


def memory_error(mean_hat, variance_hat, mean_m, variance_m):
    """[a, b, rho, xi] of a stored memory against the ideal one."""
    a = math.sqrt(math.fsum((h - m) ** 2 / v for h, m, v in zip(mean_hat, mean_m, variance_m)))
    excess = [h / v - 1 for h, v in zip(variance_hat, variance_m)]
    b, rho = math.sqrt(math.fsum(x * x for x in excess)), max(map(abs, excess))
    return [a, b, rho, math.hypot(a, b / (1 + math.sqrt(1 - rho)))]


def diagnostics(inputs, plane):
    radial, angular = ([inputs[f"drift.{k}{i}"] for i in range(2)] for k in ("radial", "angular"))
    law = {k: (inputs["w2.mean_" + k], inputs["w2.variance_" + k]) for k in ("m", "t", "hat")}
    jsd_r, jsd_d = jensen_shannon(*radial), jensen_shannon(*angular)
    high = [x - y for k, (x, y) in enumerate(zip(*radial)) if (k + 0.5) / len(radial[0]) > 0.5]
    delta, error = gaussian_w2(*law["t"], *law["m"]), memory_error(*law["hat"], *law["m"])
    rhs = math.sqrt(1 + error[2]) * gaussian_w2(*law["t"], *law["hat"]) + error[3]
    columns = [sum(i in cells for cells in plane.radial_cells + plane.angular_cells)
               for i in range(len(plane.radius))]
    return {
        "jsd_r": jsd_r, "jsd_d": jsd_d, "spec_drift_eta1": jsd_r + jsd_d,
        "high_freq_loss_rho0_0p5": math.fsum(high),
        "w2_drift": delta, "mem_err_a_b_rho_xi": error, "empirical_lhs_rhs": [delta, rhs],
        # the largest column norm: the supremum over the l1 ball is at one of its corners
        "kappa_C": math.sqrt(max(columns))}


# ---- one case

def spectrum_tensors(spectra):
    plane, size = spectra.plane, spectra.shape[-2:]
    phi, radial, angular = map(list, zip(*spectra.samples))
    names = ("radius", "angle", "radial_bin", "angular_bin")
    return {**{name: reshape(getattr(plane, name), size) for name in names},
            "map": [[reshape(x, size) for x in sample] for sample in spectra.maps],
            "power": [[reshape(x, size) for x in sample] for sample in spectra.power],
            "peak": spectra.peak, "head_descriptor": spectra.heads, "descriptor": phi,
            "radial": radial, "angular": angular}


def loss_tensors(inputs, spectra, stride, step):
    memory = [Prototype(*row) for row in zip(*(inputs["memory." + k] for k in Prototype._fields))]
    posterior = inputs["posterior"]
    results = [sample_loss(phi, angular, pi, memory, spectra.opt)
               for (phi, _, angular), pi in zip(spectra.samples, posterior)]
    names = ("distance", "divergence", "weight", "loss_per_sample")
    tensors = dict(zip(names, map(list, zip(*results))))
    tensors["loss"] = [math.fsum(tensors["loss_per_sample"]) / len(results)]
    if stride:
        tensors["grad_attention"] = attention_gradient(spectra, posterior, memory,
                                                       tensors["weight"], stride, step)
    return tensors


def geometry_tensors(inputs, with_gradient, step):
    image, text = inputs["geo.image"], inputs["geo.text"]
    reference = similarity_rows(inputs["geo.image_ref"], inputs["geo.text_ref"])
    tensors = {"geo": [geometry_loss(image, text, reference)]}
    if with_gradient:
        tensors["grad_geo_image"] = geometry_gradient(
            lambda rows: geometry_loss(rows, text, reference), image, step)
        tensors["grad_geo_text"] = geometry_gradient(
            lambda rows: geometry_loss(image, rows, reference), text, step)
    return tensors


def recompute(inputs, opt, stride=1, refine=1):
    """The tensors and scalars that belong to the inputs; stride 0 leaves the gradients out."""
    spectra = Spectra(inputs["attention"], inputs["functional"], inputs["valid"], opt)
    tensors = {**spectrum_tensors(spectra), **loss_tensors(inputs, spectra, stride, STEP / refine),
               **geometry_tensors(inputs, stride, GEOMETRY_STEP / refine),
               "metrics": score_metrics(inputs["score"])}
    memory = []
    for number in range(2):
        memory = updated(memory, {k: inputs[f"stage{number}.{k}"] for k in STAGE}, opt)
        tensors.update(memory_tensors(f"memory_after{number}", memory))
    scalars = dict(zip(("loss", "geo", "AP", "AF", "Last", "Avg"),
                       tensors["loss"] + tensors["geo"] + tensors["metrics"]))
    return tensors, {**scalars, **diagnostics(inputs, spectra.plane)}


# ---- checking

def relative_error(found, wanted):
    """Largest difference over largest wanted entry; entries not computed (None) are passed."""
    if shape_of(found) != shape_of(wanted):
        return math.inf
    found, wanted = flat(found), flat(wanted)
    errors = [abs(x - y) for x, y in zip(found, wanted) if x is not None]
    if any(math.isnan(x) for x in errors):
        return math.inf
    return max(errors, default=0.0) / (max(map(abs, wanted), default=0.0) or 1.0)


def check(folder, with_gradient):
    """Print the error of every tensor and scalar; true if all are within tolerance."""
    start = time.monotonic()
    case = json.loads((folder / "case.json").read_text())
    inputs = read_tensors(folder / "inputs.safetensors")
    expected = read_tensors(folder / "expected.safetensors")
    shape = shape_of(inputs["attention"])
    work = math.prod(shape) * math.prod(shape[-2:]) ** 2
    stride = math.ceil(work / GRADIENT_WORK) if with_gradient else 0
    tensors, scalars = recompute(inputs, case["options"], stride)
    errors = {k: relative_error(tensors.get(k), x) for k, x in expected.items()
              if stride or not k.startswith("grad_")}
    errors.update({"scalar " + k: relative_error(x, case["scalars"].get(k, math.nan))
                   for k, x in scalars.items()})
    note = f", 1 in {stride} of grad_attention" if stride > 1 else ""
    print(f"{folder.name} ({time.monotonic() - start:.1f} s{note})")
    passed = True
    for name, error in errors.items():
        good = error <= (GRADIENT_TOLERANCE if name.startswith("grad_") else TOLERANCE)
        passed = passed and good
        print(f"  {name:32} {error:.1e}{'' if good else '  TOO LARGE'}")
    return passed


# ---- making

def random_attention(rng, shape):
    """Strictly positive rows, one soft blob each, with less than all of the mass."""
    height, width = shape[-2:]
    data = []
    for _ in range(math.prod(shape[:-2])):
        cy, cx = rng.uniform(0, height - 1), rng.uniform(0, width - 1)
        cells = [math.exp(rng.gauss(0, 0.7) + 2 * math.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 2))
                 for y in range(height) for x in range(width)]
        mass = rng.uniform(0.4, 0.9) / math.fsum(cells)
        data += [x * mass for x in cells]
    return reshape(data, shape)


def random_stage(rng, count, shape, opt):
    """Lists of descriptors, radial and angular profiles of random samples."""
    ones = [[1.0] * shape[3]] * count
    attention = random_attention(rng, [count] + shape[1:])
    return map(list, zip(*Spectra(attention, ones, ones, opt).samples))


def random_prototype(rng, skill, shape, opt):
    phi, _, angular = random_stage(rng, 8, shape, opt)
    moments = stage_moments(dict(zip(STAGE, (phi, angular, [[1.0]] * 8))), 0, opt)
    # the spread of 8 samples is too narrow for a new one: without more, the weight is near 0
    spread = [v + rng.uniform(0.01, 0.03) for v in moments.variance]
    if opt["floor_at"] == "use":
        spread = [v if rng.random() < 0.7 else 0.0 for v in spread]
    return Prototype(skill, moments.mean, spread, moments.angular)


def masks(batch, tokens):
    """Sample 1 has no functional token, sample 2 only an invalid one: both fall back."""
    functional, valid = [], []
    for b in range(batch):
        last = [float(t == tokens - 1) for t in range(tokens)]
        functional.append([[float(t % 2 == 0) for t in range(tokens)], [0.0] * tokens, last][b % 3])
        cut = b % 3 == 2 or (b % 3 == 1 and tokens > 2)
        valid.append([1.0 - x * cut for x in last])
    return functional, valid


def stage_posterior(number, opt):
    """Stage 0: skill 2 once, skill 3 never. Stage 1: skill 1 once, skill 2 never, skill 3 new."""
    order = [[0, 1, 0, 2, 1, 0, 1, 1, 0, 0, 1], [3, 0, 3, 1, 0, 3, 3, 0, 0, 3, 0]][number]
    rows = [[0.85 if s == skill else 0.05 for s in range(SKILLS)] for skill in order]
    rows.append([[0.47, 0.43, 0.05, 0.05], [0.45, 0.05, 0.05, 0.45]][number])
    if opt["tau_skill"] == 1 / SKILLS:
        rows[4] = [1 / SKILLS] * SKILLS   # equal to the threshold, so of no skill
    return rows


def sample_posterior(rng, batch, seen, opt):
    rows = [[rng.gammavariate(0.7, 1.0) for _ in range(SKILLS)] for _ in range(batch)]
    rows = [[x / math.fsum(row) for x in row] for row in rows]
    if opt["unseen_skills"] == "renormalize":
        unseen = next(s for s in range(SKILLS) if s not in seen)
        rows[-1] = [float(s == unseen) for s in range(SKILLS)]
    return rows


def make_inputs(rng, shape, seen, opt):
    functional, valid = masks(shape[0], shape[3])
    inputs = dict(attention=random_attention(rng, shape), functional=functional, valid=valid,
                  posterior=sample_posterior(rng, shape[0], seen, opt))
    inputs.update(memory_tensors("memory", [random_prototype(rng, s, shape, opt) for s in seen]))
    for number in range(2):
        posterior = stage_posterior(number, opt)
        phi, radial, angular = random_stage(rng, len(posterior), shape, opt)
        inputs.update({f"stage{number}.{k}": v for k, v in zip(STAGE, (phi, angular, posterior))})
        inputs[f"drift.radial{number}"] = column_means(radial)
        inputs[f"drift.angular{number}"] = column_means(angular)
    for name in ("image", "text", "image_ref", "text_ref"):
        inputs["geo." + name] = [[rng.gauss(0, 1) for _ in range(WIDTH)] for _ in range(shape[0])]
    inputs["score"] = [[rng.uniform(0.2, 0.9) if b <= a else 0.0 for b in range(4)]
                       for a in range(4)]
    base = random_prototype(rng, 0, shape, dict(opt, floor_at="update"))
    for name, shift, spread in (("m", 0.0, 0.0), ("t", 0.5, 0.6), ("hat", 0.05, 0.3)):
        inputs["w2.mean_" + name] = [m + shift * rng.gauss(0, 1) * math.sqrt(v)
                                     for m, v in zip(base.mean, base.variance)]
        inputs["w2.variance_" + name] = [v * (1 + rng.uniform(-spread, spread))
                                         for v in base.variance]
    return inputs


def make(folder, name, shape, seen, opt):
    inputs = make_inputs(random.Random(f"{SEED} {name}"), shape, seen, opt)
    tensors, scalars = recompute(inputs, opt)
    halved, _ = recompute(inputs, opt, refine=2)
    disagreement = max(relative_error(halved[k], tensors[k])
                       for k in tensors if k.startswith("grad_"))
    if disagreement > GRADIENT_TOLERANCE:
        sys.exit(f"{name}: a difference crosses a kink ({disagreement:.1e}); change SEED")
    scalars["fd_max_err_rel_to_max_grad"] = disagreement
    case = dict(case=name, shape=shape, skills=SKILLS, options=opt, scalars=scalars)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    write_tensors(folder / "inputs.safetensors", inputs)
    write_tensors(folder / "expected.safetensors", tensors)
    print(f"{name}: loss {scalars['loss']:.3g}, differences agree to {disagreement:.0e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", nargs="+", type=Path, metavar="DIR", help="case folders")
    parser.add_argument("--no-grad", action="store_true", help="check without the gradients")
    parser.add_argument("-o", dest="output", type=Path, metavar="DIR", help="write cases here")
    options = parser.parse_args()
    folders = [path for path in options.check or [] if not path.is_file()]
    if not folders and not options.output:
        parser.error("give --check DIR... or -o DIR")
    missing = [path for path in folders if not (path / "case.json").is_file()]
    if missing:
        parser.error(f"{missing[0]}: no case.json in it")
    if options.output:
        for name, shape, seen, opt in CASES:
            make(options.output / name, name, shape, seen, opt)
    results = [check(folder, not options.no_grad) for folder in folders]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
