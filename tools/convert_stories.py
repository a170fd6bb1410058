#!/usr/bin/env python3
"""A checkpoint of llama2.c (stories260K.bin, tok512.bin) as a LLaMA folder of Hugging Face: config.json,
model.safetensors (float32), tokenizer.model, tokenizer_config.json. llama2.c rotates neighbouring pairs of a head,
Hugging Face the two halves, so the rows of q and k change places. Standard library only.

    convert_stories.py FOLDER_OR_BIN -o DIR [--tokenizer TOK.bin]
"""
import argparse
import json
import re
import struct
import sys
from array import array
from pathlib import Path

CONTROL = ("<s>", "</s>")
NORMAL, UNKNOWN, CONTROLLED, BYTE = 1, 2, 3, 6  # types of SentencePiece


def stop(text):
    sys.exit(f"convert_stories.py: {text}")


class Checkpoint:
    """Header of seven int32, then float32 in a fixed order; a negative vocabulary means an output layer of its own."""

    def __init__(self, path):
        data = path.read_bytes()
        if len(data) < 28:
            stop(f"{path}: no llama2.c checkpoint, only {len(data)} bytes")
        header = struct.unpack("<7i", data[:28])
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, vocab, self.length = header
        self.vocab, self.tied = abs(vocab), vocab > 0
        if min(*header[:5], self.vocab, self.length) < 1 or self.dim % (2 * self.heads) or self.heads % self.kv_heads:
            stop(f"{path}: the header holds impossible sizes; is this a version-0 checkpoint of llama2.c?")
        self.head_dim = self.dim // self.heads
        self.floats = array("f")
        if len(data) % 4:
            stop(f"{path}: the size is no multiple of 4; copy the file again")
        self.floats.frombytes(data[28:])
        if sys.byteorder == "big":
            self.floats.byteswap()
        self.at, self.path = 0, path

    def take(self, *shape):
        count = 1
        for size in shape:
            count *= size
        if self.at + count > len(self.floats):
            stop(f"{self.path}: cut short; {self.at + count} numbers wanted, {len(self.floats)} there")
        out = self.floats[self.at:self.at + count]
        self.at += count
        return out

    def per_layer(self, *shape):
        return [(shape, self.take(*shape)) for _ in range(self.layers)]


def halves_from_pairs(rows, heads, head_dim, width):
    """Row 2j + r of a head becomes row j + r * head_dim / 2."""
    out = array("f")
    for h in range(heads):
        for r in range(2):
            for j in range(head_dim // 2):
                at = (h * head_dim + 2 * j + r) * width
                out.extend(rows[at:at + width])
    return out


def tensors_of(c):
    kv = c.kv_heads * c.head_dim
    out = {"model.embed_tokens.weight": ((c.vocab, c.dim), c.take(c.vocab, c.dim))}
    parts = [("input_layernorm", c.per_layer(c.dim)), ("self_attn.q_proj", c.per_layer(c.dim, c.dim)),
             ("self_attn.k_proj", c.per_layer(kv, c.dim)), ("self_attn.v_proj", c.per_layer(kv, c.dim)),
             ("self_attn.o_proj", c.per_layer(c.dim, c.dim)), ("post_attention_layernorm", c.per_layer(c.dim)),
             ("mlp.gate_proj", c.per_layer(c.hidden, c.dim)), ("mlp.down_proj", c.per_layer(c.dim, c.hidden)),
             ("mlp.up_proj", c.per_layer(c.hidden, c.dim))]
    for name, layers in parts:
        for i, (shape, values) in enumerate(layers):
            if name == "self_attn.q_proj":
                values = halves_from_pairs(values, c.heads, c.head_dim, c.dim)
            if name == "self_attn.k_proj":
                values = halves_from_pairs(values, c.kv_heads, c.head_dim, c.dim)
            out[f"model.layers.{i}.{name}.weight"] = (shape, values)
    out["model.norm.weight"] = ((c.dim,), c.take(c.dim))
    c.take(c.length, c.head_dim)  # cosines and sines, which readers compute
    if not c.tied:
        out["lm_head.weight"] = ((c.vocab, c.dim), c.take(c.vocab, c.dim))
    if c.at != len(c.floats):
        stop(f"{c.path}: {len(c.floats) - c.at} numbers are left over; the sizes of the header do not fit the file")
    return out


def write_safetensors(path, tensors):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (shape, values) in sorted(tensors.items()):
        values = array("f", values)
        if sys.byteorder == "big":
            values.byteswap()
        blob = values.tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_pieces(path, count):
    """(text, score) of tok*.bin: longest length, then score, length and bytes of every piece."""
    data, at, out = path.read_bytes(), 4, []
    for i in range(count):
        if at + 8 > len(data):
            stop(f"{path}: ends before piece {i} of {count}; is it the tokenizer of this checkpoint?")
        score, size = struct.unpack("<fi", data[at:at + 8])
        if size < 0 or at + 8 + size > len(data):
            stop(f"{path}: piece {i} is cut short; copy the file again")
        out.append((data[at + 8:at + 8 + size].decode(), score))
        at += 8 + size
    return out


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A field of a protobuf message: a number, a float or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def write_tokenizer(folder, pieces):
    out = b""
    for i, (text, score) in enumerate(pieces):
        name = text.strip("\n") if text.strip("\n") in CONTROL else None
        kind = UNKNOWN if i == 0 else CONTROLLED if name else BYTE if re.fullmatch("<0x[0-9A-F]{2}>", text) else NORMAL
        text = name or text.replace(" ", "\u2581")
        out += field(1, field(1, text.encode()) + field(2, score) + field(3, kind))
    # Byte-pair encoding with byte fallback; a space in front, spaces kept: as llama2.c encodes.
    out += field(2, field(3, 2) + field(4, len(pieces)) + field(35, 1))
    out += field(3, field(1, b"identity") + field(3, 1) + field(4, 0) + field(5, 1))
    (folder / "tokenizer.model").write_bytes(out)
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>",
              "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def config_of(c):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
            "hidden_act": "silu", "hidden_size": c.dim, "intermediate_size": c.hidden, "num_hidden_layers": c.layers,
            "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "head_dim": c.head_dim,
            "vocab_size": c.vocab, "max_position_embeddings": c.length, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
            "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": c.tied, "bos_token_id": 1,
            "eos_token_id": 2}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path, help="the .bin checkpoint, or a folder with one and its tok*.bin")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--tokenizer", type=Path, help="tok*.bin (default: the one beside the checkpoint)")
    options = parser.parse_args()
    source = options.source
    if source.is_dir():
        found = sorted(p for p in source.glob("*.bin") if not p.name.startswith("tok"))
        if len(found) != 1:
            stop(f"{source}: {len(found)} checkpoints; name one")
        source = found[0]
    tokenizer = options.tokenizer
    if tokenizer is None:
        found = sorted(source.parent.glob("tok*.bin"))
        if len(found) != 1:
            stop(f"{source.parent}: {len(found)} files tok*.bin; name one with --tokenizer")
        tokenizer = found[0]
    checkpoint = Checkpoint(source)
    tensors = tensors_of(checkpoint)
    pieces = read_pieces(tokenizer, checkpoint.vocab)
    options.output.mkdir(parents=True, exist_ok=True)
    write_safetensors(options.output / "model.safetensors", tensors)
    (options.output / "config.json").write_text(json.dumps(config_of(checkpoint), indent=2) + "\n")
    write_tokenizer(options.output, pieces)
    print(f"{options.output}: {checkpoint.layers} layers, {checkpoint.heads} heads ({checkpoint.kv_heads} for keys), "
          f"{len(tensors)} tensors, {len(pieces)} pieces")


if __name__ == "__main__":
    main()
