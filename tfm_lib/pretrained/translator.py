"""A translator of Firefox at work: sentences in, translations out."""

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

from sentencepiece import SentencePieceProcessor
from torch import Tensor

from tfm_lib.data.published import SentencePieceVocabulary
from tfm_lib.errors import CourseError
from tfm_lib.model import Transformer
from tfm_lib.pretrained.firefox import FILES, build, our_config, package_files
from tfm_lib.pretrained.generation import Generation
from tfm_lib.pretrained.loading import Pretrained
from tfm_lib.pretrained.marian import Shortlist, ShortOutput, read_items
from tfm_lib.pretrained.summarizer import Summarizer

FACTOR = 2.5  # so many tokens of a translation at most, for each one of its source
LANGUAGES = {"en": "English", "pt": "Portuguese"}
FREQUENT = {  # words of each language that the other one does not have
    "English": "the of and to in is was for that it with you this are not have be on my by from she they what where",
    "Portuguese": "de que e um uma para com não os da em se ao é foi na por mais dos eu ele ela muito onde está",
}


@dataclass(frozen=True)
class Translator(Pretrained):
    """A published translator, that writes each text on its own, with the tokens that its shortlist allows."""

    shortlist: Shortlist

    def _generated(self, texts: Sequence[str], settings: Generation) -> list[str]:
        written = list[str]()
        for src in map(self.encode, zip(texts)):  # (1, S)
            model, longest = self.shortened(src)
            of_one = replace(settings, max_new_tokens=min(longest, settings.max_new_tokens))
            written += self.written(model, src, of_one)
        return written

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The ids of texts, framed and padded (B, S). Raises ValueError as `refusal` says."""
        for error in filter(None, map(self.refusal, texts)):
            raise error
        return super().encode(texts)

    def shortened(self, src: Tensor) -> tuple[Transformer, int]:
        """The model with no logits but those of src's shortlist, and the most tokens that a translation of it has."""
        short, ids = copy(self.model), self.shortlist(src[0].tolist())
        short._modules = self.model._modules | {"output": ShortOutput(self.model.output, ids)}
        return short, int(FACTOR * src.shape[1])

    def refusal(self, text: str) -> CourseError | None:
        """Why a text can't be translated: it is too long, or in letters of which the model has no pieces."""
        tokens, most = 1 + len(self.tokenizer.encode(text)), int(self.model.config.max_length / FACTOR)
        if tokens > most:
            fix = "give it sentence by sentence, a line for each"
            return CourseError(f"{self.name} reads up to {most} tokens at once, got {tokens:,}; {fix}")
        unknown = "".join(self.tokenizer.unknown_words(text))
        if 2 * len(unknown) > len("".join(text.split())):
            return CourseError(
                f"{self.name} reads {self.languages[0]}, got letters that it doesn't know: {unknown[:20]}"
            )
        return None

    @property
    def languages(self) -> tuple[str, str]:
        """From which one it translates, and into which."""
        source, target = self.name.removeprefix("firefox/").split("-")
        return LANGUAGES[source], LANGUAGES[target]


class Interpreter(Summarizer):
    """A translator in the place of a summarizer: `Summarizer.load("firefox/en-pt").write("...")` translates a text."""

    at_once = 1  # since each text has a shortlist of its own

    def __init__(self, translator: Translator) -> None:
        super().__init__(translator.model, translator.tokenizer, f"{translator.name}, the translator of Firefox")
        self.translator = translator

    def _writing(self, src: Tensor) -> tuple[Transformer, int]:
        return self.translator.shortened(src)

    def refusal(self, text: str) -> CourseError | None:
        return self.translator.refusal(text)

    def remarks(self, text: str) -> list[str]:
        """What of a text the model doesn't read, and whether it seems to be in the wrong one of the two languages."""
        words, (source, target) = set(re.findall(r"\w+", text.casefold())), self.translator.languages
        hits, others = (len(words.intersection(FREQUENT[language].split())) for language in (source, target))
        if hits >= others:
            return super().remarks(text)
        [other] = FILES.keys() - {self.translator.name}
        fix = f"{other} translates the other way"
        return [f"this looks {target}, and {self.translator.name} reads {source}; {fix}", *super().remarks(text)]


def read_translator(name: str) -> Translator:
    """A translator of Firefox by its name in FILES. Raises ValueError, with nothing half loaded, as `package_files`,
    `read_items` and `build` do, and for another name. Source: Bogoychev et al. 2020, "Edinburgh's Submissions to the
    2020 Machine Translation Efficiency Task".
    """
    if name not in FILES:
        raise CourseError(f"{name} is no translator that is known here; give one of: {', '.join(FILES)}")
    weights, shortlist, pieces = package_files(name)
    items, settings = read_items(weights, name)
    config = our_config(settings, len(items.get("Wemb", ())), name)
    processor = SentencePieceProcessor(model_proto=pieces)
    table = {processor.id_to_piece(i): i for i in range(len(processor))}
    ids = {"pad_id": config.pad_id, "start_id": config.start_id, "eos_id": config.eos_id, "unknown_id": table["<unk>"]}
    tokenizer = SentencePieceVocabulary(pieces, pieces, table, ids)
    writing = Generation(max_new_tokens=config.max_length)
    return Translator(name, build(items, config, name), tokenizer, writing, Shortlist(shortlist, len(table), name))
