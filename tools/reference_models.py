"""The models that make_reference_outputs.py builds: their sizes and what is fed to them. FIXTURES is the small set of
the repository, EXTRA a wider one for checks only. Standard library only.

A sample is a list: a number is that many random words, anything else an image: (rows, columns) of patches for Qwen,
"tiles N" for InternVL (with the thumbnail), "image" for LLaVA, "queries" for InstructBLIP. The last ANSWER words are
labelled. Samples are padded on the left.
"""
from small_tokenizers import special_ids, word_piece_tokenizer

ANSWER = 4
NEW_TOKENS = 8
VOCAB = 272  # of the models with a tokenizer
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)


def text(kind, hidden, heads, kv, inner, layers=2, theta=10000.0, eps=1e-6, rope=None, **more):
    out = dict(model_type=kind, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv,
               intermediate_size=inner, num_hidden_layers=layers, rms_norm_eps=eps, max_position_embeddings=256,
               rope_parameters=rope or dict(rope_type="default", rope_theta=theta))
    return {**out, **more}


def clip(hidden, heads, inner, layers, size, patch, act="quick_gelu"):
    return dict(model_type="clip_vision_model", hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner,
                num_hidden_layers=layers, image_size=size, patch_size=patch, projection_dim=16, hidden_act=act)


def qwen_vision(hidden, heads, inner, depth, full, patch, window, out):
    return dict(hidden_size=hidden, num_heads=heads, intermediate_size=inner, depth=depth, fullatt_block_indexes=full,
                patch_size=patch, window_size=window, out_hidden_size=out, spatial_merge_size=2, temporal_patch_size=2)


def intern_vision(hidden, heads, inner, layers, size, patch, **more):
    return dict(hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner, num_hidden_layers=layers,
                image_size=[size, size], patch_size=[patch, patch], **{"attention_bias": True, **more})


def blip_vision(hidden, heads, inner, layers, size, patch, **more):
    return dict(hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner, num_hidden_layers=layers,
                image_size=size, patch_size=patch, **more)


def qformer(hidden, heads, inner, layers, every, vocab=100):
    return dict(hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner, num_hidden_layers=layers,
                cross_attention_frequency=every, vocab_size=vocab, max_position_embeddings=32)


def linear(factor):
    return dict(rope=dict(rope_type="linear", factor=factor, rope_theta=10000.0))


def mrope(*section):
    return dict(rope={"type": "mrope", "mrope_section": list(section), "rope_theta": 1000000.0})


def ids_of(family, vocab, tokenizer):
    """Special ids at the places of the small tokenizer, or at the end of the vocabulary."""
    if tokenizer:
        return special_ids(family)
    out = dict(unk=0, bos=1, eos=2, pad=0, first=3, last=vocab - 8)
    return {**out, "image": vocab - 2, "video": vocab - 3, "start": vocab - 5, "end": vocab - 6}


def model(name, family, seed, samples, *, language, vision=None, vocab=VOCAB, tie=False, tokenizer=False, **more):
    """One entry: `config` goes to the library's configuration class; flags: bf16, shard (bytes), legacy and flat (how
    config.json is written), qformer_lengths."""
    ids = ids_of(family, vocab, tokenizer)
    flags = {key: more.pop(key) for key in ("bf16", "shard", "legacy", "flat", "qformer_lengths") if key in more}
    language = dict(language, vocab_size=vocab, bos_token_id=ids.get("bos"), eos_token_id=ids["eos"], pad_token_id=None)
    if family in ("llama", "qwen2"):
        config = dict(language, tie_word_embeddings=tie, **more)
        config.pop("model_type")
    else:
        config = dict(text_config=language, vision_config=vision, tie_word_embeddings=tie, **more)
        if family in ("llava", "internvl"):
            language["tie_word_embeddings"] = tie
    if family in ("llava", "instructblip"):
        config["image_token_index"] = ids["image"]
    if family == "instructblip":
        config.pop("tie_word_embeddings")
    if family in ("qwen2_5_vl", "internvl"):
        config["image_token_id"] = ids["image"]
    if family == "qwen2_5_vl":
        config.update(video_token_id=ids["video"], vision_start_token_id=ids["start"], vision_end_token_id=ids["end"])
        language.pop("model_type")
    return dict(flags, name=name, family=family, seed=seed, samples=samples, ids=ids, config=config, tie=tie,
                tokenizer=tokenizer)


QFORMER_VOCAB = len(word_piece_tokenizer()["model"]["vocab"])

FIXTURES = [
    model("llava", "llava", 101, [[2, "image", 6], ["image", 5]], tokenizer=True,
          language=text("llama", 24, 3, 1, 40), vision=clip(24, 3, 32, 2, 28, 7), image_seq_length=16),
    model("qwen2_5_vl", "qwen2_5_vl", 102, [[1, (4, 6), 2, (6, 4), 5], [3, (4, 10), 6]], tokenizer=True, tie=True,
          language=text("qwen2", 32, 4, 1, 40, **mrope(1, 1, 2)), vision=qwen_vision(16, 2, 32, 2, [1], 4, 16, 32)),
    model("internvl", "internvl", 103, [[2, "tiles 1", 6], [1, "tiles 3", 7]], tokenizer=True, tie=True,
          language=text("qwen2", 32, 4, 1, 40, theta=1000000.0), vision=intern_vision(24, 2, 32, 2, 28, 7),
          image_seq_length=4),
    model("instructblip", "instructblip", 104, [["queries", 7], ["queries", 9]], tokenizer=True,
          language=text("llama", 24, 3, 3, 32), vision=blip_vision(16, 2, 24, 2, 28, 7), num_query_tokens=4,
          qformer_config=qformer(24, 3, 32, 3, 2, vocab=QFORMER_VOCAB), qformer_lengths=[5, 8]),
    model("llama", "llama", 105, [[18], [11]], vocab=96, shard=16000, legacy=True,
          language=text("llama", 32, 4, 2, 40, rope=LLAMA3, head_dim=12)),
    model("qwen2", "qwen2", 106, [[9], [14]], vocab=112, tie=True, bf16=True,
          language=text("qwen2", 32, 8, 4, 40, theta=1000000.0)),
]

EXTRA = [
    model("llava-b", "llava", 201, [[3, "image", 7], ["image", 6], [5, "image", 9]], vocab=130,
          language=text("llama", 48, 6, 2, 80, 3), vision=clip(40, 5, 64, 3, 42, 14, act="gelu"), image_seq_length=9),
    model("llava-c", "llava", 202, [[2, "image", 8], [4, "image", 5]], vocab=120, tie=True,
          vision_feature_layer=[-3, -1], language=text("llama", 40, 5, 1, 72, 3, head_dim=16, **linear(2.0)),
          vision=clip(32, 4, 48, 4, 56, 14), multimodal_projector_bias=False, image_seq_length=16),
    model("llava-d", "llava", 203, [[2, "image", 3, "image", 6], [1, "image", 5]], vocab=140, vision_feature_layer=-1,
          vision_feature_select_strategy="full", language=text("llama", 64, 4, 4, 96, 2, eps=1e-5, theta=500000.0),
          vision=clip(24, 2, 40, 2, 28, 14), image_seq_length=5),
    model("llava-e", "llava", 204, [["image", 9], [6, "image", 7]], vocab=160, bf16=True, shard=60000, legacy=True,
          vision_feature_layer=1, language=text("llama", 56, 7, 7, 88, 3), vision=clip(48, 6, 56, 3, 35, 7),
          image_seq_length=25),
    model("qwen2_5_vl-b", "qwen2_5_vl", 211, [[2, (4, 8), 3, (6, 4), 6], [1, (10, 6), 8]], vocab=130,
          language=text("qwen2", 48, 6, 2, 72, 3, **mrope(1, 2, 1)),
          vision=qwen_vision(40, 5, 56, 4, [1, 3], 14, 56, 48)),
    model("qwen2_5_vl-c", "qwen2_5_vl", 212, [[4, (12, 18), 7], [2, (10, 4), 9]], vocab=120, tie=True,
          language=text("qwen2", 64, 4, 4, 80, 2, eps=1e-5, **mrope(2, 3, 3)),
          vision=qwen_vision(32, 4, 48, 2, [0], 7, 56, 64)),
    model("qwen2_5_vl-d", "qwen2_5_vl", 213, [[2, (4, 6), 6], [9]], vocab=140, bf16=True, legacy=True, flat=True,
          language=text("qwen2", 40, 5, 1, 64, 3, **mrope(1, 1, 2)),
          vision=qwen_vision(48, 3, 64, 3, [2], 14, 112, 40)),
    model("qwen2_5_vl-e", "qwen2_5_vl", 214, [[1, (2, 4), 1, (6, 2), 2, (4, 4), 5], [(8, 6), 7]], vocab=150,
          shard=80000, language=text("qwen2", 96, 6, 3, 96, 2, **mrope(4, 2, 2)),
          vision=qwen_vision(40, 2, 48, 3, [0, 2], 14, 56, 96)),
    model("internvl-b", "internvl", 221, [[2, "tiles 1", 8], [3, "tiles 5", 6]], vocab=130, tie=True,
          language=text("qwen2", 48, 6, 3, 72, 3), image_seq_length=4,
          vision=intern_vision(32, 4, 56, 3, 56, 14, norm_type="rms_norm", use_qk_norm=True)),
    model("internvl-c", "internvl", 222, [[2, "tiles 3", 2, "tiles 1", 6], [1, "tiles 1", 7]], vocab=140,
          language=text("qwen2", 56, 7, 1, 80, 2, rope=dict(rope_type="dynamic", factor=2.0, rope_theta=1000000.0)),
          vision=intern_vision(40, 5, 48, 2, 84, 14, use_mean_pooling=False, attention_bias=False), image_seq_length=9),
    model("internvl-d", "internvl", 223, [[2, "tiles 7", 6], [3, "tiles 4", 5]], vocab=120, tie=True, bf16=True,
          shard=60000, language=text("qwen2", 64, 4, 2, 80, 2, theta=1000000.0),
          vision=intern_vision(48, 3, 64, 2, 56, 14), image_seq_length=4),
    model("internvl-e", "internvl", 224, [["tiles 1", 9], [4, "tiles 3", 6]], vocab=150, legacy=True,
          language=text("llama", 48, 4, 1, 72, 3, eps=1e-5, theta=1000000.0), image_seq_length=4,
          vision=intern_vision(32, 2, 40, 3, 112, 28)),
    model("instructblip-b", "instructblip", 231, [["queries", 8], ["queries", 11], ["queries", 6]], vocab=130,
          language=text("llama", 48, 6, 6, 72, 3), vision=blip_vision(40, 5, 56, 3, 42, 14), num_query_tokens=6,
          qformer_config=qformer(36, 6, 48, 3, 1), qformer_lengths=[7, 4, 9]),
    model("instructblip-c", "instructblip", 232, [["queries", 9], ["queries", 9]], vocab=120,
          language=text("llama", 40, 5, 1, 64, 2, head_dim=12), vision=blip_vision(32, 4, 48, 2, 28, 7),
          num_query_tokens=3, qformer_config=qformer(32, 2, 40, 4, 3), qformer_lengths=[6, 6]),
    model("instructblip-d", "instructblip", 233, [["queries", 7], ["queries", 12]], vocab=140, bf16=True, shard=60000,
          language=text("llama", 64, 4, 2, 80, 2, eps=1e-5), vision=blip_vision(48, 3, 64, 2, 56, 14),
          num_query_tokens=8, qformer_config=qformer(48, 4, 64, 4, 2), qformer_lengths=[3, 8]),
    model("instructblip-e", "instructblip", 234, [["queries", 6], ["queries", 8]], vocab=150, legacy=True,
          language=text("llama", 56, 7, 7, 72, 2), num_query_tokens=5,
          vision=blip_vision(24, 2, 40, 3, 42, 14, qkv_bias=False, layer_norm_eps=1e-5),
          qformer_config=qformer(40, 5, 56, 2, 2), qformer_lengths=[9, 5]),
    model("llama-b", "llama", 241, [[40], [25]], vocab=130, language=text("llama", 64, 4, 1, 96, 3, rope=LLAMA3)),
    model("llama-c", "llama", 242, [[30], [30]], vocab=120, tie=True,
          language=text("llama", 48, 6, 2, 72, 3, head_dim=12, **linear(4.0))),
    model("llama-d", "llama", 243, [[12], [19], [7]], vocab=140, attention_bias=True,
          language=text("llama", 56, 7, 7, 88, 2, eps=1e-5, theta=500000.0)),
    model("llama-e", "llama", 244, [[15], [10]], vocab=150, bf16=True, shard=50000, legacy=True,
          language=text("llama", 72, 9, 3, 96, 3)),
    model("qwen2-b", "qwen2", 251, [[20], [13]], vocab=130, language=text("qwen2", 56, 7, 1, 80, 3, theta=1000000.0)),
    model("qwen2-c", "qwen2", 252, [[12], [16]], vocab=140, tie=True, shard=50000, legacy=True,
          language=text("qwen2", 64, 4, 2, 88, 2)),
]
