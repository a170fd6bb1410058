#!/usr/bin/env python3
"""Reference outputs of Hugging Face models for the backbones' tests: tiny random models built by transformers (5.17)
and PEFT (0.21), their folders, and beside each io.safetensors with the inputs and what the library makes of them.
float32, CPU, eager attention; models stored in bfloat16 compute in float32 on the rounded weights.

    make_reference_outputs.py --fixtures tests/fixtures/models   the small set that the repository holds, with tokenizers
    make_reference_outputs.py --extra DIR                    a wider set (sizes, heads, grids, files), for checks only
    make_reference_outputs.py --tokenizers DIR               tokenizers and image processor settings alone (no torch)

Tensors: in.* (left-padded), out.logits, out.loss, out.attn.N, out.image_features, out.generated (prompt and 8 greedy
tokens), out.position_ids (Qwen), proc.num_patches (InternVL), for InstructBLIP out.attn.N of the N-th cross-attention
(CLS column first) and out.lm_attn.N; adapter/ with lora.logits, lora.loss, lora.grad.*; with --extra also
out.last_hidden, out.qformer and lora.step.* (after one AdamW step). A seed is passed over where the two best logits of
a greedy step lie nearer than MARGIN, or where an image or end token is generated. Sizes: reference_models.py.
"""
import argparse
import copy
import json
import os
import re
import shutil
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import small_tokenizers
from reference_models import ANSWER, EXTRA, FIXTURES, NEW_TOKENS

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

CLASSES = {"llava": ("LlavaConfig", "LlavaForConditionalGeneration"),
           "qwen2_5_vl": ("Qwen2_5_VLConfig", "Qwen2_5_VLForConditionalGeneration"),
           "internvl": ("InternVLConfig", "InternVLForConditionalGeneration"),
           "instructblip": ("InstructBlipConfig", "InstructBlipForConditionalGeneration"),
           "llama": ("LlamaConfig", "LlamaForCausalLM"), "qwen2": ("Qwen2Config", "Qwen2ForCausalLM")}
TARGETS = (r"(.*language_model.*\.(q_proj|v_proj)|.*multi_modal_projector\.linear_[12]|.*visual\.merger\.mlp\.[02]|"
           r".*language_projection|.*qformer.*\.(query|value))")
TEXT_TARGETS = r".*\.(q_proj|v_proj)"  # a text-only model has no module named language_model
PICTURES = {"llava": (28, 7), "qwen2_5_vl": (40, 4), "internvl": (28, 7), "instructblip": (28, 7)}  # of the fixtures
MARGIN, TRIES, GAIN = 5e-3, 40, 1.6
SMALL_SET = re.compile(r"in\.|proc\.|out\.(logits|loss|attn|lm_attn|image_features|generated|position_ids)|"
                       r"lora\.(logits|loss|grad)")


def build(spec):
    import torch
    import transformers
    names = CLASSES[spec["family"]]
    config = getattr(transformers, names[0])(**copy.deepcopy(spec["config"]))
    model = getattr(transformers, names[1])._from_config(config, dtype=torch.float32, attn_implementation="eager")
    ids = spec["ids"]
    rules = transformers.GenerationConfig(bos_token_id=ids.get("bos"), eos_token_id=ids["eos"], pad_token_id=ids["pad"])
    model.generation_config = rules
    if spec["family"] == "instructblip":  # its generate() hands over to the language model
        model.language_model.generation_config = copy.deepcopy(rules)
    return model.eval()


def randomize(model, seed, bf16):
    """Gains above one, so that attention is far from uniform; no bias, norm or embedding keeps its initial value."""
    import torch
    source = torch.Generator().manual_seed(seed)
    noise = lambda p: torch.randn(p.shape, generator=source)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() >= 2:
                fan_in = p.shape[-1] if p.dim() == 3 else p.numel() // p.shape[0]
                p.copy_(noise(p) * GAIN / max(fan_in, 1) ** 0.5)
            elif name.endswith("weight"):  # of norms
                p.copy_(1 + 0.2 * noise(p))
            elif "lambda" in name:
                p.copy_(0.3 + 0.1 * noise(p))
            else:
                p.copy_(0.1 * noise(p))
            if bf16:
                p.copy_(p.bfloat16().float())


def image_tokens(spec, part):
    """Number of placeholder tokens, and what is added to pixel_values: (shape of the rows, grid)."""
    config, family = spec["config"], spec["family"]
    vision = config.get("vision_config") or {}
    if family == "qwen2_5_vl":
        rows, columns = part
        return rows * columns // 4, (rows * columns, 3 * 2 * vision["patch_size"] ** 2)
    size = vision["image_size"] if isinstance(vision["image_size"], int) else vision["image_size"][0]
    if family == "internvl":
        tiles = int(part.split()[1])
        return tiles * config["image_seq_length"], (tiles, 3, size, size)
    return config["num_query_tokens"] if family == "instructblip" else config["image_seq_length"], (1, 3, size, size)


def inputs_of(spec, seed):
    import torch
    source = torch.Generator().manual_seed(seed + 7)
    ids, family = spec["ids"], spec["family"]
    rows, pixels, grids, tiles = [], [], [], []
    for sample in spec["samples"]:
        row = []
        for part in sample:
            if isinstance(part, int):
                row += torch.randint(ids["first"], ids["last"], (part,), generator=source).tolist()
                continue
            count, shape = image_tokens(spec, part)
            wrap = family in ("qwen2_5_vl", "internvl")
            row += [ids.get("start")] * wrap + [ids["image"]] * count + [ids.get("end")] * wrap
            pixels.append(torch.randn(shape, generator=source))
            grids.append([1, *part] if family == "qwen2_5_vl" else [])
            tiles.append(shape[0])
        rows.append(row)
    length = max(map(len, rows))
    left = [[0] * (length - len(row)) for row in rows]
    out = {"input_ids": torch.tensor([[ids["pad"]] * len(pad) + row for pad, row in zip(left, rows)]),
           "attention_mask": torch.tensor([pad + [1] * len(row) for pad, row in zip(left, rows)])}
    labels = out["input_ids"].clone()
    labels[:, :-ANSWER] = -100
    if pixels:
        out["pixel_values"] = torch.cat(pixels)
    if family == "qwen2_5_vl":
        out["image_grid_thw"] = torch.tensor(grids)
        out["mm_token_type_ids"] = (out["input_ids"] == ids["image"]).long()
    if family == "instructblip":
        out.update(qformer_inputs(spec, source))
    return out, labels, {"proc.num_patches": torch.tensor(tiles)} if family == "internvl" else {}


def qformer_inputs(spec, source):
    """Padded on the right, as the Q-Former's tokenizer does."""
    import torch
    lengths, vocab = spec["qformer_lengths"], spec["config"]["qformer_config"]["vocab_size"]
    ids = torch.randint(5, vocab, (len(lengths), max(lengths)), generator=source)
    mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
    return {"qformer_input_ids": ids * mask, "qformer_attention_mask": mask}


def longer(inputs, tokens):
    """The same inputs with generated tokens behind the prompt."""
    import torch
    extra = tokens.shape[1] - inputs["input_ids"].shape[1]
    out = {**inputs, "input_ids": tokens}
    grown = [("attention_mask", 1)] + [("mm_token_type_ids", 0)] * ("mm_token_type_ids" in inputs)
    for name, value in grown:
        rest = torch.full((tokens.shape[0], extra), value, dtype=inputs[name].dtype)
        out[name] = torch.cat([inputs[name], rest], 1)
    return out


def greedy(model, inputs, notes):
    """Prompt and new tokens by generate(), checked (where it fails, replaced) by plain forwards; smallest margin."""
    import torch
    prompt = inputs["input_ids"].shape[1]
    try:
        tokens = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
        if tokens.shape[1] <= NEW_TOKENS:  # some versions return the new tokens alone
            tokens = torch.cat([inputs["input_ids"], tokens], 1)
    except Exception as error:
        notes.add(f"generate() failed: {type(error).__name__}: {str(error)[:120]}")
        tokens = inputs["input_ids"]
        for _ in range(NEW_TOKENS):
            best = model(**longer(inputs, tokens)).logits[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, best], 1)
    if tokens.shape[1] != prompt + NEW_TOKENS:
        return tokens, -1.0
    logits = model(**longer(inputs, tokens)).logits[:, prompt - 1:-1]
    top = logits.topk(2, dim=-1)
    if not torch.equal(top.indices[..., 0], tokens[:, prompt:]):
        return tokens, -2.0
    return tokens, (top.values[..., 0] - top.values[..., 1]).min().item()


def tensor_of(output):
    if hasattr(output, "pooler_output") and output.pooler_output is not None:
        return output.pooler_output
    return output[0] if isinstance(output, (tuple, list)) or hasattr(output, "keys") else output


def record(model, spec, inputs, labels):
    """One forward with hooks on the attention modules, the projector, the Q-Former and the last norm."""
    import torch
    family, seen, handles = spec["family"], {}, []

    def keep(name, pick):
        return lambda module, args, output: seen.__setitem__(name, pick(output).detach().clone())

    def keep_positions(module, args, kwargs):
        if kwargs.get("position_ids") is not None:
            seen["out.position_ids"] = kwargs["position_ids"][-3:].clone()

    features = {"llava": "multi_modal_projector", "internvl": "multi_modal_projector", "qwen2_5_vl": "visual",
                "instructblip": "language_projection"}.get(family)
    cross = 0
    for name, module in model.named_modules():
        last = name.rsplit(".", 1)[-1]
        seeing = "vis" in name
        layer = re.search(r"layers\.(\d+)\.self_attn$", name)
        if layer and not seeing:
            kind = "lm_attn" if family == "instructblip" else "attn"
            handles.append(module.register_forward_hook(keep(f"out.{kind}.{layer.group(1)}", lambda o: o[1])))
        if name.endswith("crossattention.attention"):
            handles.append(module.register_forward_hook(keep(f"out.attn.{cross}", lambda o: o[1])))
            cross += 1
        if last == "norm" and not seeing and ".layers." not in name:
            handles.append(module.register_forward_hook(keep("out.last_hidden", lambda o: o)))
        if last == features:
            handles.append(module.register_forward_hook(keep("out.image_features", tensor_of)))
        if name == "qformer":
            handles.append(module.register_forward_hook(keep("out.qformer", lambda o: o[0])))
        if family == "qwen2_5_vl" and last == "language_model":
            handles.append(module.register_forward_pre_hook(keep_positions, with_kwargs=True))
    with torch.no_grad():
        out = model(**inputs, labels=labels)
    for handle in handles:
        handle.remove()
    seen["out.logits"], seen["out.loss"] = out.logits.detach(), out.loss.detach().reshape(1)
    if family == "llava":
        seen["out.image_features"] = seen["out.image_features"].flatten(0, 1)
    return seen


def rewrite_config(folder, spec):
    """config.json as older versions and most downloads have it: rope_theta, rope_scaling, torch_dtype; Qwen's flat."""
    def older(part):
        rope = part.pop("rope_parameters", None)
        if rope and rope.get("rope_type") != "axial":
            part["rope_theta"] = rope.pop("rope_theta")
            if rope.get("type") == "mrope":
                rope.pop("rope_type", None)
            part["rope_scaling"] = rope if rope.get("rope_type") != "default" else None
        if "dtype" in part:
            part["torch_dtype"] = part.pop("dtype")
        if part.get("head_dim") and part["head_dim"] * part["num_attention_heads"] == part["hidden_size"]:
            part.pop("head_dim")
        for value in part.values():
            if isinstance(value, dict) and "model_type" in value:
                older(value)

    path = folder / "config.json"
    config = json.loads(path.read_text())
    if spec.get("flat"):
        inner = config.pop("text_config")
        config = {**{key: inner[key] for key in inner if key != "model_type"}, **config}
    older(config)
    small_tokenizers.write_json(path, config)


def save_model(model, folder, spec):
    import torch
    stored = copy.deepcopy(model).to(torch.bfloat16) if spec.get("bf16") else model
    more = {"max_shard_size": spec["shard"]} if "shard" in spec else {}
    stored.save_pretrained(folder, **more)
    if spec.get("legacy"):
        rewrite_config(folder, spec)


def reload_error(model, folder, inputs, logits):
    """Largest difference of the logits of the folder as the library reads it."""
    import torch
    again = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return (again(**inputs).logits - logits).abs().max().item()


def adapted(model, folder, spec, inputs, labels, seed):
    import torch
    from peft import LoraConfig, get_peft_model
    targets = TEXT_TARGETS if spec["family"] in ("llama", "qwen2") else TARGETS
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, bias="none", target_modules=targets)
    wrapped = get_peft_model(model, config).eval()
    source = torch.Generator().manual_seed(seed + 13)
    trained = {name: p for name, p in wrapped.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for name, p in trained.items():
            scale = p.shape[1] ** -0.5 if "lora_A" in name else 0.2
            p.copy_(scale * torch.randn(p.shape, generator=source))
    try:
        wrapped.save_pretrained(folder / "adapter", save_embedding_layers=False)
    except TypeError:
        wrapped.save_pretrained(folder / "adapter")
    out = wrapped(**inputs, labels=labels)
    out.loss.backward()
    plain = {name: name.replace(".default.", ".") for name in trained}
    found = {"lora.logits": out.logits.detach(), "lora.loss": out.loss.detach().reshape(1)}
    found.update({"lora.grad." + plain[name]: p.grad.clone() for name, p in trained.items()})
    torch.optim.AdamW(trained.values(), lr=1e-3, betas=(0.9, 0.999), weight_decay=0.01).step()
    found.update({"lora.step." + plain[name]: p.detach().clone() for name, p in trained.items()})
    return found


def tidy_adapter(folder, names):
    """No card, no path of this machine; the file must hold the parameters that have gradients."""
    from safetensors import safe_open
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None
    small_tokenizers.write_json(path, config)
    with safe_open(str(folder / "adapter_model.safetensors"), "pt") as stored:
        if set(stored.keys()) != names:
            raise RuntimeError(f"adapter names differ: {sorted(set(stored.keys()) ^ names)[:4]}")


def check_tokenizers(folder):
    """Ids of a text by the tokenizers library, for the tests of a reader."""
    from tokenizers import Tokenizer
    out = {}
    for name in ("", "qformer_tokenizer"):
        if (folder / name / "tokenizer.json").exists():
            tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
            out[name or "tokenizer"] = tokenizer.encode(small_tokenizers.PROBE, add_special_tokens=False).ids
    small_tokenizers.write_compact(folder / "tokens.json", {"text": small_tokenizers.PROBE, **out})


def make(spec, folder, small):
    import torch
    import transformers
    from safetensors.torch import save_file
    notes = set()
    special = {spec["ids"][role] for role in ("eos", "image", "video") if role in spec["ids"]}
    for attempt in range(TRIES):
        seed = spec["seed"] + 1000 * attempt
        torch.manual_seed(seed)
        model = build(spec)
        randomize(model, seed, spec.get("bf16"))
        inputs, labels, more = inputs_of(spec, seed)
        with torch.no_grad():
            tokens, margin = greedy(model, inputs, notes)
        fresh = set(tokens[:, inputs["input_ids"].shape[1]:].flatten().tolist())
        if margin >= MARGIN and not fresh & special:
            break
    else:
        notes.add(f"no good seed in {TRIES}")
    if margin == -2.0:
        notes.add("generate() and plain forwards disagree")
    output = model.get_output_embeddings()
    if (output.weight is model.get_input_embeddings().weight) != spec["tie"]:
        notes.add("embeddings are not tied as asked")
    tensors = {"in." + name: value for name, value in inputs.items()}
    tensors.update({"in.labels": labels, "out.generated": tokens, **more, **record(model, spec, inputs, labels)})
    save_model(model, folder, spec)
    try:
        error = reload_error(model, folder, inputs, tensors["out.logits"])
        notes.add(f"reload {error:.1e}" + (" WRONG" if error > 1e-4 else ""))
    except Exception as problem:
        notes.add(f"reload FAILED: {type(problem).__name__}: {str(problem)[:160]}")
    try:
        tensors.update(adapted(model, folder, spec, inputs, labels, seed))
        gradients = {n[10:]: g for n, g in tensors.items() if n.startswith("lora.grad.")}
        zero = [n for n, g in gradients.items() if g.abs().max() < 1e-8]
        if zero:
            notes.add(f"{len(zero)} gradients are zero, first {zero[0]}")
        tidy_adapter(folder / "adapter", set(gradients))
    except Exception as problem:
        traceback.print_exc()
        notes.add(f"adapter FAILED: {type(problem).__name__}: {str(problem)[:160]}")
    if not all(torch.isfinite(t).all() for t in tensors.values() if t.is_floating_point()):
        notes.add("NOT FINITE")
    if small:
        tensors = {n: t for n, t in tensors.items() if SMALL_SET.match(n)}
    about = {"format": "pt", "seed": str(seed), "transformers": transformers.__version__, "torch": torch.__version__}
    save_file({n: t.contiguous() for n, t in tensors.items()}, str(folder / "io.safetensors"), metadata=about)
    losses = " ".join(f"{n} {tensors[n].item():.4f}" for n in ("out.loss", "lora.loss") if n in tensors)
    return f"seed {seed} margin {margin:.3f} {losses} tensors {len(tensors)} {'; '.join(sorted(notes))}"


def write_side_files(spec, folder):
    small_tokenizers.write_tokenizers(folder, spec["family"])
    size, patch = PICTURES[spec["family"]]
    settings = small_tokenizers.image_processor(spec["family"], size, patch)
    small_tokenizers.write_json(folder / "preprocessor_config.json", settings)


def make_set(specs, target, small, only, lines):
    for spec in specs:
        if only and not re.search(only, spec["name"]):
            continue
        folder, begin = target / spec["name"], time.time()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            state = "ok    " + make(spec, folder, small)
            if spec["tokenizer"]:
                write_side_files(spec, folder)
                check_tokenizers(folder)
        except Exception as error:
            traceback.print_exc()
            state = f"FAILED {type(error).__name__}: {str(error)[:200]}"
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        lines.append(f"{spec['name']:16} {size / 1e3:7.0f} kB {time.time() - begin:5.1f} s  {state}")
        print(lines[-1], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", type=Path, help="folder for the small set")
    parser.add_argument("--extra", type=Path, help="folder for the wider set")
    parser.add_argument("--tokenizers", type=Path, help="folder for the tokenizers alone")
    parser.add_argument("--only", help="regular expression on the names")
    options = parser.parse_args()
    if not (options.fixtures or options.extra or options.tokenizers):
        parser.error("nothing to do; name a folder with --fixtures, --extra or --tokenizers")
    lines = []
    if options.tokenizers:
        for spec in FIXTURES:
            if spec["tokenizer"]:
                write_side_files(spec, options.tokenizers / spec["name"])
    if options.fixtures or options.extra:
        import peft
        import torch
        import transformers
        transformers.logging.set_verbosity_error()
        torch.set_num_threads(4)
        print(f"torch {torch.__version__} transformers {transformers.__version__} peft {peft.__version__}", flush=True)
    if options.fixtures:
        make_set(FIXTURES, options.fixtures, True, options.only, lines)
    if options.extra:
        make_set(EXTRA, options.extra, False, options.only, lines)
    failed = [line for line in lines if re.search("FAILED|WRONG|FINITE|disagree", line)]
    print("\nSummary\n" + "\n".join(lines) + f"\n{len(lines)} models, {len(failed)} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
