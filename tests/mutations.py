"""Breaks the package in one place at a time, and sees the tests notice.

Each mutation is one replacement in one file, with the tests that should fail. `python tests/mutations.py` prints what
each of them caught, and exits with 1 if one went unnoticed; names of mutations after it run those alone.
The tests run in forks of one process that has imported torch already, since importing it so often would take minutes.
"""

import contextlib
import gc
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU_SECONDS = 60  # for one test file; a change that hangs it is noticed


@dataclass(frozen=True)
class Mutation:
    name: str
    module: str
    old: str
    new: str
    tests: str  # the file in tests/ that should notice, without its ending


# fmt: off
MUTATIONS = [
    Mutation("mask ignored in the softmax", "masks", "scores.masked_fill(~mask, -torch.inf)", "scores", "test_masks"),
    Mutation("mask inverted in the softmax", "masks", "masked_fill(~mask, -torch.inf)", "masked_fill(mask, -torch.inf)", "test_masks"),
    Mutation("hidden keys filled with -1e6", "masks", "~mask, -torch.inf", "~mask, -1e6", "test_masks"),
    Mutation("softmax over the queries", "masks", "return scores.softmax(-1).masked", "return scores.softmax(-2).masked", "test_masks"),
    Mutation("row that sees nothing becomes NaN", "masks", ".masked_fill(nothing_seen, 0.0)", "", "test_masks"),
    Mutation("row that sees nothing is uniform", "masks", ".softmax(-1).masked_fill(~mask, 0.0)", ".softmax(-1)", "test_masks"),
    Mutation("input changed in place", "masks", "scores = scores.masked_fill(", "scores = scores.masked_fill_(", "test_masks"),
    Mutation("lengths off by one", "masks", ") < per_query", ") <= per_query", "test_masks"),
    Mutation("lengths transposed", "masks", "lengths[:, None, :, None]", "lengths.T[:, None, :, None]", "test_masks"),
    Mutation("padding mask inverted", "masks", "(ids != pad_id)", "(ids == pad_id)", "test_masks"),
    Mutation("padding hides query rows", "masks", "(ids != pad_id)[:, None, None, :]", "(ids != pad_id)[:, None, :, None]", "test_model"),
    Mutation("causal mask shows one future token", "masks", "key <= query", "key <= query + 1", "test_masks"),
    Mutation("causal mask hides the present", "masks", "key <= query", "key < query", "test_masks"),
    Mutation("causal mask forgets the past", "masks", "torch.arange(past, past + length", "torch.arange(0, length", "test_decoding"),
    Mutation("no division by sqrt(K)", "attention", " / sqrt(query.shape[-1])", "", "test_attention"),
    Mutation("divided by K, not its root", "attention", "/ sqrt(query.shape[-1])", "/ query.shape[-1]", "test_attention"),
    Mutation("kernel ignores the mask", "attention", "attn_mask=mask", "attn_mask=None", "test_attention"),
    Mutation("kernel gets the mask inverted", "attention", "attn_mask=mask", "attn_mask=None if mask is None else ~mask", "test_attention"),
    Mutation("heads split without transposing", "attention", "x.view(*x.shape[:2], -1, self.width).transpose(1, 2)", "x.reshape(x.shape[0], -1, x.shape[1], self.width)", "test_attention"),
    Mutation("heads merged without transposing", "attention", "x.transpose(1, 2).flatten(2)", "x.reshape(x.shape[0], x.shape[2], -1)", "test_attention"),
    Mutation("no output projection", "attention", "self.output_proj(self._merge(", "(self._merge(", "test_attention"),
    Mutation("keys projected as values", "attention", "self._split(self.value_proj(value))", "self._split(self.key_proj(value))", "test_attention"),
    Mutation("weights recorded after dropout", "attention", "self.on_weights(weights)", "self.on_weights(F.dropout(weights, dropout))", "test_attention"),
    Mutation("dropout on the weights in eval", "attention", "self.dropout if self.training else 0.0", "self.dropout", "test_attention"),
    Mutation("queries said to begin at 0", "attention", "torch.arange(past, past + queries", "torch.arange(0, queries", "test_variants"),
    Mutation("positions not handed on", "layers", "mask, cache, positions, causal=causal)", "mask, cache, causal=causal)", "test_variants"),
    Mutation("an encoder layer forgets its cache", "layers", "mask, cache, positions, causal", "mask, None, positions, causal", "test_variants"),
    Mutation("additive score without tanh", "attention", "pairs.tanh()", "pairs", "test_attention"),
    Mutation("positions shifted by one", "positions", "self.table[self.offset + past :", "self.table[self.offset + past + 1 :", "test_positions"),
    Mutation("positions always from 0", "positions", "self.table[self.offset + past : self.offset + end]", "self.table[self.offset : self.offset + x.shape[1]]", "test_decoding"),
    Mutation("i counts columns, not pairs", "positions", "-2 * pair / d_model", "-4 * pair / d_model", "test_positions"),
    Mutation("sine and cosine swapped", "positions", "[angle.sin(), angle.cos()], dim=-1).flatten", "[angle.cos(), angle.sin()], dim=-1).flatten", "test_positions"),
    Mutation("table saved with the weights", "positions", ", persistent=False", "", "test_positions"),
    Mutation("norm order swapped", "layers", "if self.norm_first:", "if not self.norm_first:", "test_layers"),
    Mutation("no way around the sub-layer", "layers", "self.norm(x + self._drop(sublayer(x)))", "self.norm(self._drop(sublayer(x)))", "test_layers"),
    Mutation("dropout on the way around", "layers", "return x + self._drop(sublayer(self.norm(x)))", "return self._drop(x + sublayer(self.norm(x)))", "test_layers"),
    Mutation("one norm for two sub-layers", "layers", "        self.around_feed_forward = Residual(d_model, dropout, norm_first)\n\n    def forward(\n        self,\n        x: Tensor,\n        mask", "        self.around_feed_forward = self.around_self_attention\n\n    def forward(\n        self,\n        x: Tensor,\n        mask", "test_layers"),
    Mutation("activation forgotten", "layers", "self.activation(self.expand(x))", "self.expand(x)", "test_layers"),
    Mutation("memory mask forgotten", "layers", "memory, memory, memory_mask, cross", "memory, memory, None, cross", "test_layers"),
    Mutation("cross-attention looks at the target", "layers", "self.cross_attention(y, memory, memory,", "self.cross_attention(y, y, y,", "test_layers"),
    Mutation("weights not tied", "model", "if self.config.tied:", "if not self.config.tied:", "test_model"),
    Mutation("embeddings not scaled", "model", "self._look_up(ids) * self.scale", "self._look_up(ids)", "test_model"),
    Mutation("embeddings start at N(0, 1)", "model", "embedding.tokens.weight, std=self.config.d_model**-0.5", "embedding.tokens.weight, std=1.0", "test_model"),
    Mutation("no final norm in a pre-norm encoder", "model", "self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()", "self.norm = nn.Identity()", "test_model"),
    Mutation("no causal mask", "model", "causal = len(own.query) > 1", "causal = False", "test_model"),
    Mutation("target mask replaces the causal one", "masks", "else future & mask", "else mask", "test_model"),
    Mutation("source padding seen by the decoder", "model", "self.encode(src, src_mask), src_mask=src_mask)", "self.encode(src, src_mask), src_mask=src_mask | True)", "test_model"),
    Mutation("all layers are one layer", "model", "nn.ModuleList([EncoderLayer(**config.layer) for _ in range(config.num_encoder_layers)])", "nn.ModuleList([EncoderLayer(**config.layer)] * config.num_encoder_layers)", "test_model"),
    Mutation("memory projected again at each step", "model", "if past:", "if False:", "test_decoding"),
    Mutation("the gate turned round", "copying", "log_softmax(-1, dtype=dtype) + F.logsigmoid(-gate)", "log_softmax(-1, dtype=dtype) + F.logsigmoid(gate)", "test_copying"),
    Mutation("a word that stands twice counts once", "copying", "weights @ same.to(weights.dtype)", "weights", "test_copying"),
    Mutation("each place of a word hands the gradient on", "copying", "mixed.detach().where(again, mixed)", "mixed", "test_copying"),
    Mutation("padding is copied", "copying", "self.pointer(x, memory.keys, src_mask)", "self.pointer(x, memory.keys, None)", "test_copying"),
    Mutation("log 0 has a gradient", "copying", "copied.masked_fill(nothing, 1.0).log()", "copied.log()", "test_copying"),
    Mutation("a mixture in half precision", "copying", "torch.promote_types(logits.dtype, torch.float32)", "logits.dtype", "test_copying"),
    Mutation("a row that moves copies from its old source", "copying", "self.ids[rows])", "self.ids[: len(rows)])", "test_copying"),
    Mutation("slots start as all words do", "copying", "0.99**0.5 * table[slots[0]] + 0.1 * table[slots]", "table[slots]", "test_copying"),
    Mutation("a checkpoint forgets that its model copies", "checkpoints", "CopyingTransformer if about.get(\"copying\") else Transformer", "Transformer", "test_copying"),
    Mutation("a summary has slots of its own", "batches", "[pair.summary for pair in pairs], words, written=True)", "[pair.summary for pair in pairs], list(map(vocabulary.slot_words, (pair.summary for pair in pairs))), written=True)", "test_copying"),
    Mutation("common words are hidden, too", "batches", "articles_with[i] <= most and ", "", "test_copying"),
    Mutation("slots for what was cut off", "batches", "known[: len(slots & {*ids})]", "known", "test_copying"),
    Mutation("Oslo and oslo have two slots", "vocabulary", "return normalizer.normalize_str(word) if normalizer else word", "return word", "test_copying"),
    Mutation("the place of most attention for that of the word", "tracing", "most, position = same.max(-1)", "most, position = weights.max(-1)", "test_copying"),
    Mutation("slots without words in a summary", "writing", "words[some], count", "[[] for _ in words[some]], count", "test_copying"),
    Mutation("stale cache", "decoding", "        self.key[:, :, self.length : end] = key\n", "        self.key[:, :, : key.shape[2]] = key\n", "test_decoding"),
    Mutation("cache does not grow", "decoding", "self.length = end", "self.length = key.shape[2]", "test_decoding"),
    Mutation("finished rows go on", "decoding", "ended = token == writer.eos_id", "ended = token == -1", "test_decoding"),
    Mutation("rows that have ended stay in the batch", "decoding", "        if ended.any():", "        if ended.all():", "test_decoding"),
    Mutation("cache keeps the wrong rows", "decoding", "old[:, :, : self.length].index_select(0, rows)", "old[: len(rows), :, : self.length]", "test_decoding"),
    Mutation("a row that moves keeps its old source", "decoding", "self.source[rows], self.memory[rows]", "self.source, self.memory[rows]", "test_decoding"),
    Mutation("a row that moves keeps the mask of its old source", "decoding", "self.src_mask = self.src_mask[rows]", "self.src_mask = self.src_mask[: len(rows)]", "test_decoding"),
    Mutation("padding is seen in decoding", "decoding", "None if src_mask.all() else", "None if src_mask.any() else", "test_decoding"),
    Mutation("the kernel hides the past under a cache", "attention", " and query.shape[-2] == key.shape[-2]:", ":", "test_attention"),
    Mutation("log-probabilities go on after the end", "decoding", ".masked_fill(after_the_end(tokens, config.eos_id), 0.0)", "", "test_decoding"),
    Mutation("log-probabilities not shifted", "batches", "tokens[:, :-1]], dim=1)", "tokens[:, 1:]], dim=1)", "test_decoding"),
    Mutation("samples from the global random state", "decoding", "1, generator=generator)", "1)", "test_decoding"),
    Mutation("the end may come one token early", "next_token", "length <= self.min_new_tokens", "length < self.min_new_tokens", "test_next_token"),
    Mutation("the end may not come where nothing else is left", "next_token", "            forbidden[:, eos_id] &= ~forbidden.all(-1)\n", "", "test_next_token"),
    Mutation("n-grams one too short", "next_token", "0 < n <= length", "0 < n < length", "test_next_token"),
    Mutation("top-p leaves out the token that reaches it", "next_token", "F.pad(ranked.cumsum(-1)[..., :-1], (1, 0))", "ranked.cumsum(-1)", "test_next_token"),
    Mutation("top-k keeps one more", "next_token", "min(top_k, ", "min(top_k + 1, ", "test_next_token"),
    Mutation("temperature multiplies", "next_token", "logits / temperature", "logits * temperature", "test_next_token"),
    Mutation("beams keep the cache of others", "beam", "writer.select(rows[goes_on].gather(1, ranks).flatten())", "writer.select(rows[goes_on][:, : ranks.shape[1]].flatten())", "test_beam_search"),
    Mutation("beams see the past of others", "beam", "self.past.flatten(0, 1)[rows].unflatten", "self.past.flatten(0, 1)[: len(rows)].unflatten", "test_beam_search"),
    Mutation("beams stand one after the other", "beam", "return Positions(self.at[-1:], self.at)", "return Positions(self.at[-new:], self.at)", "test_beam_search"),
    Mutation("half as many continuations", "beam", "log_probs, 2 * num_beams)", "log_probs, num_beams)", "test_beam_search"),
    Mutation("no length penalty", "beam", "(totals / length**length_penalty)", "totals", "test_beam_search"),
    Mutation("the start token counts in the length", "beam", "(totals / length**length_penalty)", "(totals / (length + 1) ** length_penalty)", "test_beam_search"),
    Mutation("an end that ranks low is kept", "beam", "texts[:, :num_beams, 1:], scores[:, :num_beams])", "texts[:, :, 1:], scores)", "test_beam_search"),
    Mutation("a text that ended goes on", "beam", "totals.masked_fill(ended, -torch.inf).topk", "totals.topk", "test_beam_search"),
    Mutation("always stops early", "beam", "if not early_stopping:", "if False:", "test_beam_search"),
    Mutation("never stops early", "beam", "if not early_stopping:", "if True:", "test_beam_search"),
    Mutation("stops by the total, not the score", "beam", "totals[:, 0] / length**length_penalty > worst", "totals[:, 0] > worst", "test_beam_search"),
    Mutation("texts unfinished at the longest length are lost", "beam", " | (length == max_new_tokens)", "", "test_beam_search"),
    Mutation("beams mixed between sources", "beam", "first_rows + best // vocab_size", "best // vocab_size", "test_beam_search"),
    Mutation("sums in half precision", "next_token", "torch.promote_types(logits.dtype, torch.float32)", "logits.dtype", "test_next_token"),
    Mutation("decoding starts with padding", "decoding", "config.start_id)", "config.pad_id)", "test_decoding"),
    Mutation("decoding with dropout", "decoding", "        module.training = False\n", "        pass\n", "test_decoding"),
    Mutation("source padding seen in decoding", "decoding", "src_mask = padding_mask(src, config.pad_id)", "src_mask = padding_mask(src, -1)", "test_decoding"),
    Mutation("recording never ends", "tracing", "            module.on_weights = before[name]", "            pass", "test_tracing"),
    Mutation("an inner recording silences the outer", "tracing", "also(weights)", "pass", "test_tracing"),
    Mutation("a kernel sees an empty row", "attention", "attn_mask=mask | nothing_seen", "attn_mask=mask", "test_attention"),
    Mutation("first words scored without the last", "rouge", "accumulate(map(len, given), initial=0)", "accumulate(map(len, given[:-1]), initial=0)", "test_scoring"),
    Mutation("rouge of English for all", "rouge", "return ENGLISH if", "return ENGLISH if True or", "test_scoring"),
    Mutation("no shift", "batches", "[[start_id, *ids] for ids in summaries]", "[[*ids, eos_id] for ids in summaries]", "test_batches"),
    Mutation("end not among the labels", "batches", "[[*ids, eos_id] for ids in summaries]", "[ids for ids in summaries]", "test_batches"),
    Mutation("an example left out of an epoch", "batches", "    for index in order:\n", "    for index in order[1:]:\n", "test_batches"),
    Mutation("an article on two sides", "pairs", "order[size : 2 * size]", "order[: 2 * size]", "test_pairs"),
    Mutation("blank lines are records", "pairs", "if not line.strip():", "if False:", "test_pairs"),
    Mutation("the number of a slot in words", "newsroom", "str(int(how_many))", "NUMBERS[how_many]", "test_newsroom"),
    Mutation("two answers count as the first", "newsroom", "len(matches) == 1", "matches", "test_newsroom"),
    Mutation("padding counted in the loss", "training", "ignore_index=pad_id, ", "", "test_training"),
    Mutation("no label smoothing", "training", ", label_smoothing=label_smoothing)", ")", "test_training"),
    Mutation("gradients pile up", "training", "    optimizer.zero_grad()\n", "", "test_training"),
    Mutation("resumed run sees the first batches again", "training", "for indices in plan[done:]", "for indices in plan[0:]", "test_training"),
    Mutation("random state not restored", "training", "    torch.set_rng_state(", "    (lambda state: None)(", "test_training"),
    Mutation("texts with a worse score become more probable", "risk", "risk = 1 - (odds", "risk = (odds", "test_risk"),
    Mutation("texts are scored by the summaries of others", "risk", "_scores(written, batch.labels[rows]", "_scores(written, batch.labels.repeat(TEXTS, 1)", "test_risk"),
    Mutation("a row falls to no worker", "workers", "range(rank, len(batch.src), number)", "range(rank, len(batch.src) - 1, number)", "test_workers"),
    Mutation("a share counts by its rows", "workers", "own_labels / labels", "len(own.labels) / len(batch.labels)", "test_workers"),
    Mutation("altered checkpoint accepted", "checkpoints", "if checksum != _checksum(tensors, text):", "if False:", "test_checkpoints"),
    Mutation("checkpoint written in place", "files", "part = path.with_name(f\".{path.name}.{secrets.token_hex(4)}.part\")", "part = path", "test_checkpoints"),
    Mutation("exact match for every prefix", "scoring", "text.lower() == reference.lower()", "reference.lower().startswith(text.lower())", "test_scoring"),
    Mutation("BART's positions begin at 0", "pretrained/names", '"position_offset": 2, "embed_norm": True}', '"position_offset": 0, "embed_norm": True}', "test_pretrained"),
    Mutation("sinusoids interleave in Marian", "pretrained/names", '"marian": {"interleaved": False}', '"marian": {"interleaved": True}', "test_pretrained"),
    Mutation("Pegasus is post-norm", "pretrained/names", '"pegasus": {"interleaved": False, "norm_first": True}', '"pegasus": {"interleaved": False}', "test_pretrained"),
    Mutation("the order of halves is undone", "pretrained/names", "torch.arange(d_model).view(-1, 2).T.flatten()", "torch.arange(d_model).view(2, -1).T.flatten()", "test_pretrained"),
    Mutation("biases of outputs keep their order", "pretrained/names", '"output_proj.weight", "output_proj.bias", ', '"output_proj.weight", ', "test_pretrained"),
    Mutation("the start token counts as written", "pretrained/generation", 'max(0, said["min_length"] - 1)', 'said["min_length"]', "test_pretrained"),
    Mutation("nothing stands behind a text", "pretrained/tokenizer", "most - len(self.before) - len(self.after))], *self.after]", "most - len(self.before) - len(self.after))]]", "test_pretrained"),
]
# fmt: on


@contextlib.contextmanager
def broken(sources: dict[str, str]) -> Iterator[Path]:
    """A copy of the package and its tests in which these are the sources of some modules."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("tfm_lib", "tests", "benchmarks"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__", "proof"))
        for module, source in sources.items():
            Path(folder, "tfm_lib", f"{module}.py").write_text(source, encoding="utf-8")
        yield Path(folder)


def outcome(folder: Path, tests: str) -> int:
    """Pytest's exit status for one test file of the folder, run in a fork: 0 all passed, 1 some failed, -24 it hung."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import resource

    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    os.chdir(folder)
    sys.path[0] = str(folder)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    arguments = [f"tests/{tests}.py", "-x", "--tb=no", "-p", "no:cacheprovider", "-c", os.devnull, "-m", "not slow"]
    os._exit(int(pytest.main([*arguments, f"--rootdir={folder}"])))


def mutated(mutation: Mutation) -> str:
    """The source of the broken module; LookupError where it no longer holds what is to be replaced."""
    source = (ROOT / "tfm_lib" / f"{mutation.module}.py").read_text(encoding="utf-8")
    if mutation.old not in source:
        raise LookupError(
            f"{mutation.name}: {mutation.module}.py no longer holds {mutation.old!r}; update the mutation"
        )
    return source.replace(mutation.old, mutation.new)


def caught(mutation: Mutation) -> bool:
    """True where the named tests fail on the broken package. An error in collection is not a catch."""
    with broken({mutation.module: mutated(mutation)}) as folder:
        return outcome(folder, mutation.tests) == 1


def prepare() -> None:
    """Import what the forks need, so that each of them takes a second less."""
    import hypothesis
    import pytest  # noqa: F401
    import rouge_score.rouge_scorer  # noqa: F401
    import tokenizers  # noqa: F401
    import torch.distributed.run
    from safetensors import torch as _  # noqa: F401
    from tqdm import auto  # noqa: F401

    gc.freeze()
    torch.set_num_threads(1)
    hypothesis.settings.register_profile("mutations", database=None, derandomize=True)
    hypothesis.settings.load_profile("mutations")
    warnings.simplefilter("ignore", DeprecationWarning)  # forking while threads wait for their children is what we do


if __name__ == "__main__":
    prepare()
    chosen = [mutation for mutation in MUTATIONS if not sys.argv[1:] or mutation.name in sys.argv[1:]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(caught, chosen))
    for mutation, noticed in zip(chosen, results, strict=True):
        print(f"{'caught' if noticed else 'MISSED'}  {mutation.tests:16} {mutation.name}")
    print(f"{sum(results)} of {len(results)} mutations caught")
    sys.exit(not all(results))
