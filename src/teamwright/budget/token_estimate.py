"""What a prompt is made of, as far as its number of tokens depends on it: bytes by class of characters.

Tokenizers differ, but all of them spend few tokens on words and many on digits, base64 and rare scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from teamwright.values.limits.reply import text_size

BYTES_PER_MESSAGE: Final = 16
"""The frame of a message in the byte bound."""
TOKENS_PER_MESSAGE: Final = 8
"""The frame of a message: marks of its beginning and end, its role, its channel; most formats need four."""
TOKENS_PER_REQUEST: Final = 16
"""What a format adds once: the beginning of the answer, and hidden lines before the first message."""

_DENSE: Final = re.compile(r"(?=[A-Za-z+/=_-]{0,23}[0-9])(?![0-9]{24})[A-Za-z0-9+/=_-]{24,}")
_ASIAN: Final = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]+")
_OTHER: Final = re.compile(r"[^\x00-\x7f]+")
_DIGITS: Final = b"0123456789"
_SYMBOLS: Final = b'!"#$%&()*+-/:;<=>?@[\\]^_`{|}~'


class TextProfile(NamedTuple):
    """The UTF-8 bytes of a text by class of characters, and its messages.

    `words` are ASCII letters, spaces and the punctuation of prose; `symbols` is other punctuation, as in code; `dense`
    are long runs of letters with digits among them, such as base64, hashes and ids; `asian` is Chinese, Japanese and
    Korean.
    """

    words: int = 0
    symbols: int = 0
    digits: int = 0
    dense: int = 0
    asian: int = 0
    other: int = 0
    messages: int = 0

    def plus(self, other: TextProfile) -> TextProfile:
        """Return the profile of both texts together."""
        return TextProfile(*map(sum, zip(self, other, strict=True)))


def profile_of(text: str) -> TextProfile:
    """Classify the characters of a text, in time proportional to its length."""
    dense = asian = other = 0
    if len(text) >= 24:
        text, dense = _without(_DENSE, text)
    if not text.isascii():
        text, asian = _without(_ASIAN, text)
        text, other = _without(_OTHER, text)
    ascii_bytes = text.encode()
    size = len(ascii_bytes)
    digits = size - len(ascii_bytes.translate(None, _DIGITS))
    symbols = size - len(ascii_bytes.translate(None, _SYMBOLS))
    return TextProfile(size - digits - symbols, symbols, digits, dense, asian, other)


def _without(pattern: re.Pattern[str], text: str) -> tuple[str, int]:
    """Remove what matches, and return the rest of the text and the bytes that were removed."""
    rest = pattern.sub("", text)
    return rest, text_size(text) - text_size(rest) if len(rest) < len(text) else 0


def byte_bound(prompt_bytes: int, messages: int) -> int:
    """Return an upper bound of the tokens of a prompt for any tokenizer: one per byte, plus a frame per message."""
    return prompt_bytes + BYTES_PER_MESSAGE * messages


def framed(tokens: Iterable[int], messages: int) -> int:
    """Return an upper bound of the tokens of a prompt whose texts have been counted by the model's tokenizer."""
    return sum(tokens) + TOKENS_PER_MESSAGE * messages + TOKENS_PER_REQUEST
