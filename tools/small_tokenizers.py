"""Small tokenizers and image processor settings for the models of make_reference_outputs.py, written as plain JSON:
byte-level BPE with the family's special tokens, and WordPiece for a Q-Former. Standard library only.
"""
import json
import pathlib
import sys

# Special tokens before the 256 bytes and after the merges, the roles they play, and the way words are cut.
FAMILIES = {
    "llava": dict(front=["<unk>", "<s>", "</s>"], back=["<image>", "<pad>"], split="gpt2",
                  roles=dict(unk="<unk>", bos="<s>", eos="</s>", pad="<pad>", image="<image>")),
    "instructblip": dict(front=["<unk>", "<s>", "</s>"], back=["<image>", "<pad>"], split="gpt2",
                         roles=dict(unk="<unk>", bos="<s>", eos="</s>", pad="<pad>", image="<image>")),
    "qwen2_5_vl": dict(front=[], split="qwen2",
                       back=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
                             "<|image_pad|>", "<|video_pad|>"],
                       roles=dict(eos="<|im_end|>", pad="<|endoftext|>", image="<|image_pad|>", video="<|video_pad|>",
                                  start="<|vision_start|>", end="<|vision_end|>")),
    "internvl": dict(front=[], split="qwen2",
                     back=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>"],
                     roles=dict(eos="<|im_end|>", pad="<|endoftext|>", image="<IMG_CONTEXT>", start="<img>",
                                end="</img>")),
}
SPACE = "\u0120"
MERGES = [("t", "h"), ("th", "e"), (SPACE, "the"), ("i", "n"), ("in", "g"), (SPACE, "a"), ("i", "s"), (SPACE, "is")]
QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                 r"\s*[\r\n]+|\s+(?!\S)|\s+")
WORDS = "what is the color of how many are there in image yes no ##ing".split()
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PROBE = "USER: <image> What is the thing?\n\u00fc 42 the End"


def byte_letters():
    """GPT-2's alphabet: the letter that stands for each byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, following = {b: chr(b) for b in shown}, 256
    for b in range(256):
        if b not in out:
            out[b], following = chr(following), following + 1
    return [out[b] for b in range(256)]


def vocabulary(family):
    """Piece -> id: specials in front, bytes, merges, specials behind."""
    rules = FAMILIES[family]
    pieces = rules["front"] + byte_letters() + [a + b for a, b in MERGES] + rules["back"]
    return {piece: i for i, piece in enumerate(pieces)}


def special_ids(family):
    """Ids by role (image, pad, eos, ...), and the range [first, last) of ordinary tokens."""
    ids = vocabulary(family)
    first = len(FAMILIES[family]["front"])
    return {**{role: ids[piece] for role, piece in FAMILIES[family]["roles"].items()},
            "first": first, "last": first + 256 + len(MERGES)}


def added(piece, number):
    return {"id": number, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def byte_level(**more):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, **more}


def template(front, back, ids):
    token = lambda piece: {"SpecialToken": {"id": piece, "type_id": 0}}
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    single = [token(p) for p in front] + [text("A", 0)] + [token(p) for p in back]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [text("B", 1)],
            "special_tokens": {p: {"id": p, "ids": [ids[p]], "tokens": [p]} for p in front + back}}


def byte_level_tokenizer(family):
    rules, ids = FAMILIES[family], vocabulary(family)
    specials = set(rules["front"] + rules["back"])
    qwen = rules["split"] == "qwen2"
    cut = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    sequence = {"type": "Sequence", "pretokenizers": [cut, byte_level(use_regex=False)]}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(p, i) for p, i in ids.items() if p in specials],
            "normalizer": {"type": "NFC"} if qwen else None,
            "pre_tokenizer": sequence if qwen else byte_level(use_regex=True),
            "post_processor": byte_level(use_regex=False) if qwen else template(["<s>"], [], ids),
            "decoder": byte_level(use_regex=False),
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {p: i for p, i in ids.items() if p not in specials},
                      "merges": [list(m) for m in MERGES]}}


def word_piece_tokenizer():
    marks = [chr(c) for c in range(33, 127) if not chr(c).isalnum()]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + [str(d) for d in range(10)]
    pieces = BERT_SPECIALS + marks + letters + ["##" + p for p in letters]
    pieces += WORDS
    ids = {piece: i for i, piece in enumerate(pieces)}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(p, ids[p]) for p in BERT_SPECIALS],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": template(["[CLS]"], ["[SEP]"], ids),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}


def image_processor(family, size, patch=14):
    """preprocessor_config.json for square pictures of `size` pixels (Qwen: about that area)."""
    common = dict(do_convert_rgb=True, do_normalize=True, do_rescale=True, do_resize=True, resample=3,
                  rescale_factor=1 / 255, image_mean=CLIP_MEAN, image_std=CLIP_STD)
    square = {"height": size, "width": size}
    if family == "llava":
        return {**common, "image_processor_type": "CLIPImageProcessor", "do_center_crop": True, "crop_size": square,
                "size": {"shortest_edge": size}}
    if family == "qwen2_5_vl":
        return {**common, "image_processor_type": "Qwen2VLImageProcessor", "merge_size": 2, "patch_size": patch,
                "temporal_patch_size": 2, "size": {"shortest_edge": (2 * patch) ** 2, "longest_edge": size ** 2}}
    if family == "internvl":
        return {**common, "image_processor_type": "GotOcr2ImageProcessor", "crop_to_patches": True, "min_patches": 1,
                "max_patches": 4, "size": square, "image_mean": IMAGENET_MEAN, "image_std": IMAGENET_STD}
    return {**common, "image_processor_type": "BlipImageProcessor", "size": square}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_compact(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def write_tokenizers(folder, family):
    """tokenizer.json and tokenizer_config.json; for InstructBLIP qformer_tokenizer/ too."""
    folder.mkdir(parents=True, exist_ok=True)
    write_compact(folder / "tokenizer.json", byte_level_tokenizer(family))
    roles = FAMILIES[family]["roles"]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 256, "padding_side": "left",
              "clean_up_tokenization_spaces": False, "add_bos_token": "bos" in roles, "add_eos_token": False}
    config.update({f"{role}_token": roles[role] for role in ("bos", "eos", "unk", "pad") if role in roles})
    write_json(folder / "tokenizer_config.json", config)
    if family != "instructblip":
        return
    inner = folder / "qformer_tokenizer"
    inner.mkdir(exist_ok=True)
    write_compact(inner / "tokenizer.json", word_piece_tokenizer())
    write_json(inner / "tokenizer_config.json",
               {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 64, "cls_token": "[CLS]",
                "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"})


def byte_tokenizer(config):
    """For a model that came without a tokenizer: bytes, the family's special tokens, the image token where it wants it."""
    rules = FAMILIES[config["model_type"]]
    image = config.get("image_token_index", config.get("image_token_id"))
    out = byte_level_tokenizer(config["model_type"])
    specials = [p for p in rules["front"] + rules["back"] if p != rules["roles"]["image"]]
    ids = {piece: 256 + i for i, piece in enumerate(specials)}
    ids[rules["roles"]["image"]] = image
    out["added_tokens"] = [added(piece, number) for piece, number in ids.items()]
    out["post_processor"] = None
    out["model"].update(vocab={letter: i for i, letter in enumerate(byte_letters())}, merges=[])
    return out


def main():
    """usage: tools/small_tokenizers.py FOLDER...: tokenizers for Hugging Face models that have none."""
    for name in sys.argv[1:]:
        folder = pathlib.Path(name)
        config = json.loads((folder / "config.json").read_text())
        if (folder / "tokenizer.json").exists():
            sys.exit(f"small_tokenizers: {folder} has a tokenizer")
        write_tokenizers(folder, config["model_type"])
        write_compact(folder / "tokenizer.json", byte_tokenizer(config))


if __name__ == "__main__":
    main()
