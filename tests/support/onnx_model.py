"""A small model in the ONNX format with a real tokenizer, made on the spot: it embeds a text as the mean of its words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

PAD, UNKNOWN = "<pad>", "<unk>"
MAX_TOKENS = 128


def make_model(directory: Path, texts: Sequence[str], *, dimension: int = 256) -> Path:
    """Make a model in *directory* whose tokenizer knows the words of *texts*, and return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    size = _make_tokenizer(directory, texts)
    table = np.random.default_rng(7).normal(size=(size, dimension)).astype(np.float32)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", dimension])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        inputs,
        [output],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(directory / "model.onnx"))
    return directory


def _make_tokenizer(directory: Path, texts: Sequence[str]) -> int:
    """Train byte-level pairs on the texts, write what goes with a model, and return the number of tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    # Chinese characters stand alone, and words are cut into short pieces, so that "live" and "lives" are alike.
    tokenizer.normalizer = normalizers.BertNormalizer(handle_chinese_chars=True, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        special_tokens=[PAD, UNKNOWN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        vocab_size=2_000,
        min_frequency=1,
        max_token_length=5,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    told = {"pad_token": PAD, "unk_token": UNKNOWN}
    files = {
        "tokenizer_config.json": told | {"model_max_length": MAX_TOKENS},
        "special_tokens_map.json": told,
        "config.json": {"pad_token_id": tokenizer.token_to_id(PAD)},
    }
    for name, value in files.items():
        directory.joinpath(name).write_text(json.dumps(value), encoding="utf-8")
    return int(tokenizer.get_vocab_size())
