"""The tokenizers of models whose encoding is known: those of the extra `tokens`.

bpe-openai is imported only once a limit needs it, which takes a second of CPU. Nothing accesses the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Final
from warnings import catch_warnings, simplefilter

from teamwright.values.specs.models import TokenizerName

CountTokens = Callable[[str], int]


ENCODINGS: Final[tuple[tuple[TokenizerName, re.Pattern[str]], ...]] = (
    (
        "o200k_base",
        re.compile(r"(?:^|[:/.])(?:gpt-(?:4o|4\.1|4\.5|5|oss)|chatgpt-4o|o[134])(?![a-z0-9])"),
    ),
    ("cl100k_base", re.compile(r"(?:^|[:/.])gpt-(?:4|3\.5|35)(?![a-z0-9])")),
)
"""The encoding of each family of models, by the name after a provider; the first match counts."""
LARGEST_CHUNK: Final = 32_768
"""Characters that are tokenized at once: bpe-openai refuses long texts, and the event loop waits meanwhile."""


def encoding_of(model: str) -> TokenizerName | None:
    """Return the encoding of a model by its name, such as `openai:gpt-5-mini`; `None` if it is not known.

    A name that lists several models, of which any may answer, has none.
    """
    if "," in model:
        return None
    return next((name for name, pattern in ENCODINGS if pattern.search(model.lower())), None)


@lru_cache
def is_installed() -> bool:
    """Whether the extra is installed; imports nothing."""
    return find_spec("bpe_openai") is not None


@lru_cache
def load_tokenizer(encoding: TokenizerName) -> CountTokens | None:
    """Return a function that counts the tokens of a text; `None` if the extra is not installed.

    The text is ordinary text to the model, so what looks like a special token is counted as its characters.
    """
    try:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # it reads its data by a function that Python has deprecated
            from bpe_openai import get_encoding  # pyright: ignore[reportMissingTypeStubs]

            encode = get_encoding(encoding).encode_ordinary
    except (ImportError, OSError):  # the second, if its data is missing
        return None

    def count(text: str) -> int:
        return sum(len(encode(chunk)) for chunk in chunks(text))

    return count


def chunks(text: str) -> list[str]:
    """Split a long text after line ends or spaces, where tokenizers split too, so that the count stays the same."""
    found: list[str] = []
    start = 0
    while len(text) - start > LARGEST_CHUNK:
        end = start + LARGEST_CHUNK
        at = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
        end = at if at > start else end
        found.append(text[start:end])
        start = end
    found.append(text[start:])
    return found
