"""Resolves YAML scalars by the core schema of YAML 1.2: `yes`, `010`, `1:30` and dates stay text."""

from __future__ import annotations

import math
import re

from teamwright.documents.nodes import shown

TAG = "tag:yaml.org,2002:"
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
LARGEST = 1 << 63

ScalarValue = str | int | float | bool | None


def resolve(text: str, tag: str | None, *, plainly: bool) -> tuple[ScalarValue, str]:
    """Return the value of a scalar, and a message if it has none."""
    if tag in {None, "!"}:
        return _plain_value(text) if plainly and tag is None else (text, "")
    kind = str(tag).removeprefix(TAG)
    if kind == "str":
        return text, ""
    expected = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}.get(kind)
    if expected is None:
        return text, f"The tag {shown(str(tag))} is not supported: remove it"
    value, mistake = _plain_value(text)
    if mistake or type(value) not in expected:
        return text, mistake or f"{shown(text)} does not match its tag !!{kind}"
    return value, ""


def _plain_value(text: str) -> tuple[ScalarValue, str]:
    if text in WORDS:
        return WORDS[text], ""
    if INTEGER.fullmatch(text):
        return _integer(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        return (number, "") if math.isfinite(number) else (text, f"The number {shown(text)} is too large")
    if NOT_FINITE.fullmatch(text):
        return text, f"{text} is not a finite number"
    return text, ""


def _integer(text: str) -> tuple[ScalarValue, str]:
    # Python rejects very long numbers, and no record needs more than 64 bits.
    if len(text) <= 24:
        number = int(text, 0)
        if -LARGEST <= number < LARGEST:
            return number, ""
    return text, f"The number {shown(text)} is too large"
