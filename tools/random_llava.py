#!/usr/bin/env python3
"""Writes a Hugging Face folder of LLaVA-1.5-7B's shape with random bf16 weights, to measure steps without a download.

usage: tools/random_llava.py FOLDER     (needs torch, transformers and, to be quick, a GPU; 14 GB)
The tokenizer is the small one of the tests: speed does not depend on what tokens mean.
"""
import json
import pathlib
import shutil
import sys

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

SMALL = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/models/llava"
SIDE = 336


def shape(image_token):
    vision = CLIPVisionConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16,
                              image_size=SIDE, patch_size=14, projection_dim=768)
    text = LlamaConfig(vocab_size=32064, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
                       num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096)
    return LlavaConfig(vision_config=vision, text_config=text, image_token_index=image_token, image_seq_length=576)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    small = json.loads((SMALL / "config.json").read_text())
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlavaForConditionalGeneration(shape(small["image_token_index"]))
    model.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(SMALL / name, out / name)
    picture = json.loads((SMALL / "preprocessor_config.json").read_text())
    picture["crop_size"] = {"height": SIDE, "width": SIDE}
    picture["size"] = {"shortest_edge": SIDE}
    (out / "preprocessor_config.json").write_text(json.dumps(picture, indent=1))


main()
