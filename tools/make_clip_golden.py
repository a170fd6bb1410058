#!/usr/bin/env python3
"""Reference outputs of CLIP for the encoder's tests: two tiny random models built by transformers, their folders, and
beside each what the library makes of texts, pixels and pictures: float64 on the CPU, eager attention, kept as float32.

    make_clip_golden.py --fixtures tests/fixtures/clip      # needs torch, transformers, tokenizers, safetensors, Pillow
    make_clip_golden.py --parts DIR                         # tokenizers, settings and pictures alone: standard library

A folder holds config.json, model.safetensors, a tokenizer, preprocessor_config.json, picture-N.png, texts.json
[{"text", "ids"}] with the ids of the library's CLIPTokenizer, end tokens included, cut at the tower's length, and
io.safetensors: in.pixel_values, out.pixels.pooled and .projected; proc.N, the pixels of picture N, and out.picture.N,
its projection; out.text.pooled and .projected, a row a text. `old` is as files of before transformers 4.31 are
(eos_token_id 2, quick_gelu, tokenizer.json), `new` as later ones (gelu, vocab.json and merges.txt).
"""
import argparse
import json
import os
import random
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from small_tokenizers import CLIP_MEAN, CLIP_STD, added, byte_letters, byte_level, write_compact, write_json

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

BEGIN, END, MARK = "<|startoftext|>", "<|endoftext|>", "</w>"
MERGES = [("t", "h"), ("th", "e" + MARK), ("i", "n"), ("in", "g" + MARK), ("a", "t" + MARK), ("c", "at" + MARK),
          ("i", "s" + MARK), ("'", "s" + MARK), ("h", "at" + MARK), ("w", "hat" + MARK), ("c", "o"), ("l", "o"),
          ("lo", "r" + MARK), ("co", "lor" + MARK), ("!", "!" + MARK)]
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
TEXTS = ["What color is the cat?", "  THE\tcat's   hat\n", "thing 1234", "e\u0301t\u00c9 na\u00efve",
         "a!!'s ?! don't we'll", "\u4f60\u597d, \u00a0world",
         "the thing is the hat is the color is the cat is the thing is the end of it all", "x", "<|endoftext|> after",
         "in 3D: 10% of \u20ac5"]
VOCABULARY = 512 + len(MERGES) + 2
MODELS = {
    "old": dict(
        text=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                  max_position_embeddings=16, hidden_act="quick_gelu", bos_token_id=0, eos_token_id=2, pad_token_id=1),
        vision=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=28,
                    patch_size=7, hidden_act="quick_gelu"),
        projection=20, files="tokenizer.json", seed=31),
    "new": dict(
        text=dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                  max_position_embeddings=12, hidden_act="gelu", layer_norm_eps=1e-6, bos_token_id=VOCABULARY - 2,
                  eos_token_id=VOCABULARY - 1, pad_token_id=VOCABULARY - 1),
        vision=dict(hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=24,
                    patch_size=8, hidden_act="gelu", layer_norm_eps=1e-6),
        projection=28, files="vocab.json", seed=32),
}
PICTURES = [(45, 33), (20, 31), (64, 64)]  # width and height
GAIN = 1.6


def vocabulary():
    letters = byte_letters()
    pieces = letters + [letter + MARK for letter in letters] + [a + b for a, b in MERGES] + [BEGIN, END]
    return {piece: i for i, piece in enumerate(pieces)}


def tokenizer_json():
    """As in the folders that openai has published."""
    ids = vocabulary()
    cut = {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Removed", "invert": True}
    spaces = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(p, ids[p]) for p in (BEGIN, END)],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, spaces, {"type": "Lowercase"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [cut, byte_level()]},
            "post_processor": {"type": "RobertaProcessing", "sep": [END, ids[END]], "cls": [BEGIN, ids[BEGIN]],
                               "trim_offsets": False, "add_prefix_space": False},
            "decoder": byte_level(),
            "model": {"type": "BPE", "dropout": None, "unk_token": END, "continuing_subword_prefix": "",
                      "end_of_word_suffix": MARK, "fuse_unk": False, "vocab": ids,
                      "merges": [f"{a} {b}" for a, b in MERGES]}}


def write_tokenizer(folder, spec):
    if spec["files"] == "tokenizer.json":
        write_compact(folder / "tokenizer.json", tokenizer_json())
    else:
        write_compact(folder / "vocab.json", vocabulary())
        lines = ["#version: 0.2"] + [f"{a} {b}" for a, b in MERGES]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_json(folder / "tokenizer_config.json",
               {"tokenizer_class": "CLIPTokenizer", "model_max_length": spec["text"]["max_position_embeddings"],
                "bos_token": BEGIN, "eos_token": END, "unk_token": END, "pad_token": END})


def write_processor(folder, size):
    write_json(folder / "preprocessor_config.json",
               dict(image_processor_type="CLIPImageProcessor", do_convert_rgb=True, do_normalize=True, do_rescale=True,
                    do_resize=True, do_center_crop=True, resample=3, rescale_factor=1 / 255, image_mean=CLIP_MEAN,
                    image_std=CLIP_STD, crop_size={"height": size, "width": size}, size={"shortest_edge": size}))


def picture_bytes(width, height, seed):
    """A PNG of soft colours: sums of a few waves, so that resizing it is no matter of single pixels."""
    import math
    source = random.Random(seed)
    waves = [[(source.uniform(0.02, 0.4), source.uniform(0.02, 0.4), source.uniform(0, 6)) for _ in range(3)]
             for _ in range(3)]
    rows = b""
    for y in range(height):
        rows += b"\0"
        for x in range(width):
            for colour in waves:
                value = sum(math.sin(a * x + b * y + c) for a, b, c in colour)
                rows += bytes([int(127.5 + 42 * value)])
    chunk = lambda kind, body: (struct.pack(">I", len(body)) + kind + body +
                                struct.pack(">I", zlib.crc32(kind + body)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def write_parts(folder, spec):
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, spec)
    write_processor(folder, spec["vision"]["image_size"])
    for number, (width, height) in enumerate(PICTURES):
        (folder / f"picture-{number}.png").write_bytes(picture_bytes(width, height, spec["seed"] + number))


def build(spec):
    """Gains above one, so that attention is far from uniform; no bias, norm or embedding keeps its initial value."""
    import torch
    import transformers
    config = transformers.CLIPConfig(text_config={**spec["text"], "vocab_size": VOCABULARY},
                                     vision_config=dict(spec["vision"]), projection_dim=spec["projection"])
    model = transformers.CLIPModel._from_config(config, attn_implementation="eager").float().eval()
    source = torch.Generator().manual_seed(spec["seed"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=source)
            if p.dim() >= 2:
                p.copy_(noise * GAIN / (p.numel() // p.shape[0]) ** 0.5)
            elif name.endswith("weight"):
                p.copy_(1 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.1 * noise)
    return model


def library_ids(folder, spec):
    """Of transformers' CLIPTokenizer; the tokenizers library must agree where there is a tokenizer.json."""
    import transformers
    longest = spec["text"]["max_position_embeddings"]
    tokenizer = transformers.CLIPTokenizer.from_pretrained(str(folder))
    out = [tokenizer(text, truncation=True, max_length=longest)["input_ids"] for text in TEXTS]
    if (folder / "tokenizer.json").exists():
        from tokenizers import Tokenizer
        plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
        plain.enable_truncation(longest)
        for text, ids in zip(TEXTS, out):
            assert plain.encode(text).ids == list(ids), (text, plain.encode(text).ids, ids)
    return [list(map(int, ids)) for ids in out]


def processed(folder, number):
    import transformers
    from PIL import Image
    processor = transformers.CLIPImageProcessor.from_pretrained(str(folder))
    picture = Image.open(folder / f"picture-{number}.png").convert("RGB")
    return processor(images=picture, return_tensors="pt")["pixel_values"]


def outputs(model, spec, folder, ids):
    import torch
    source = torch.Generator().manual_seed(spec["seed"] + 100)
    side = spec["vision"]["image_size"]
    pixels = torch.randn((2, 3, side, side), generator=source)
    tensors = {"in.pixel_values": pixels}
    exact = model.double()

    def pooled(values):
        return exact.vision_model(pixel_values=values.double()).pooler_output

    def text(row):
        row = torch.tensor([row])
        return exact.text_model(input_ids=row, attention_mask=torch.ones_like(row)).pooler_output

    with torch.no_grad():
        tensors["out.pixels.pooled"] = pooled(pixels)
        tensors["out.pixels.projected"] = exact.visual_projection(pooled(pixels))
        for number in range(len(PICTURES)):
            tensors[f"proc.{number}"] = processed(folder, number)
            tensors[f"out.picture.{number}"] = exact.visual_projection(pooled(tensors[f"proc.{number}"]))
        states = torch.cat([text(row) for row in ids])
        tensors["out.text.pooled"] = states
        tensors["out.text.projected"] = exact.text_projection(states)
        # The whole model on a padded batch: padding must not matter, and its embeddings are those of the parts.
        longest = max(map(len, ids))
        end = ids[0][-1]
        batch = torch.tensor([row + [end] * (longest - len(row)) for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
        whole = exact(input_ids=batch, attention_mask=mask, pixel_values=pixels.double())
        unit = lambda x: x / x.norm(dim=-1, keepdim=True)
        for name, ours in (("text_embeds", tensors["out.text.projected"]),
                           ("image_embeds", tensors["out.pixels.projected"])):
            apart = (getattr(whole, name) - unit(ours)).abs().max().item()
            assert apart < 1e-6, (name, apart)  # transformers takes some softmaxes in float32
    return {name: tensor.float().contiguous() for name, tensor in tensors.items()}


def write_model(folder, spec):
    import torch
    import transformers
    from safetensors.torch import save_file
    model = build(spec)
    model.save_pretrained(str(folder))
    for name in folder.glob("generation_config.json"):
        name.unlink()
    write_parts(folder, spec)  # after it: nothing of ours is overwritten
    ids = library_ids(folder, spec)
    write_json(folder / "texts.json", [{"text": text, "ids": row} for text, row in zip(TEXTS, ids)])
    tensors = outputs(model, spec, folder, ids)
    about = {"transformers": transformers.__version__, "torch": torch.__version__}
    save_file(tensors, str(folder / "io.safetensors"), metadata=about)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {len(tensors)} tensors, {len(ids)} texts, {size} bytes, transformers {transformers.__version__}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", type=Path, help="where the two folders go, `old` and `new`")
    parser.add_argument("--parts", type=Path, help="the same without weights and outputs")
    arguments = parser.parse_args()
    if not (arguments.fixtures or arguments.parts):
        parser.error("give --fixtures or --parts")
    for name, spec in MODELS.items():
        if arguments.parts:
            write_parts(arguments.parts / name, spec)
        if arguments.fixtures:
            (arguments.fixtures / name).mkdir(parents=True, exist_ok=True)
            write_model(arguments.fixtures / name, spec)


if __name__ == "__main__":
    main()
