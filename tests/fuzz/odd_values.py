"""Values that break parsers: numbers at the edges, control characters, and structures that are deep or wide."""

from __future__ import annotations

from random import Random

from pydantic import JsonValue

NUMBERS: tuple[int | float, ...] = (
    0, -0.0, 1, -1, 0.1, 0.5, 0.999999999, 1e-320, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    10**30, -(10**30), 1e308, -1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "\n", "\t", "\x00", "\x1b[2J", "\x1b]0;title\x07", "\r\n", "\u2028", "\ufeff", "\u202e", "\u200b",
    "\ud800", "\udfff", "\U0010ffff", "e\u0301", "İ", "ß", "null", "~", "true", "no", "0x1F", "1e999", "0o17",
    "1_000", "12:30:45", "2001-01-01", "<<", "!!python/object:os.system", "&a", "*a", "? ", "- ", "{{", "}}", "{%",
    "%}", "{#", "${HOME}", "${}", "${X", "$", "../../x", "/dev/null", "/dev/zero", "file:///etc/hostname", "http://",
    "http://[", "a:b", "os:path", "a/b", "a b", ".", "..", "-", "--help", "a" * 65, "a" * 5000, "\n# user:\n", "```",
    "```envelope\n{", "terminate", "workspace", "local", "scripted:", "openai:", "*", "**", "[a-", "(a+)+$", "\\", "\"",
    "'", "#", "constructor", "__class__", "__proto__", "$ref", "$reply", "#/$defs/x", "run.ended",
)  # fmt: skip
CHARACTERS = (
    "\x00\x07\x0b\x1b\x1e\x7f\x85\xa0\u0300\u200b\u2028\u202e\ufeff\ud800\udfff\U0001f600"
    "{}[]()<>:,#&*!|>'\"%@`\\\n\r\t -"
)


def odd_number(random: Random) -> int | float:
    """A number at an edge, or any."""
    if random.random() < 0.6:
        return random.choice(NUMBERS)
    return random.randint(-1000, 1000) if random.random() < 0.7 else random.uniform(-1e6, 1e6)


def odd_text(random: Random) -> str:
    """A text that is troublesome, or a mixture of such characters."""
    roll = random.random()
    if roll < 0.6:
        return random.choice(TEXTS)
    if roll < 0.8:
        return "".join(random.choice(CHARACTERS + "abc01") for _ in range(random.randint(1, 30)))
    if roll < 0.95:
        return random.choice(TEXTS) * random.randint(2, 200)
    return random.choice((" ", "a", "{", "[", "- ", "\n", "{{", "a.", "x|")) * random.randint(1000, 30000)


def odd_value(random: Random, depth: int = 3) -> JsonValue:
    """Any JSON value, mostly an odd one; NaN and infinities are among the numbers."""
    roll = random.random()
    if roll < 0.3:
        return odd_text(random)
    if roll < 0.55:
        return odd_number(random)
    if roll < 0.7 or depth <= 0:
        return random.choice((None, True, False, [], {}))
    if roll < 0.84:
        return [odd_value(random, depth - 1) for _ in range(random.randint(0, 4))]
    if roll < 0.97:
        return {odd_text(random)[:200]: odd_value(random, depth - 1) for _ in range(random.randint(0, 4))}
    return deep(random)


def deep(random: Random) -> JsonValue:
    """A value that is nested deeper than it should be read."""
    value: JsonValue = "x"
    for _ in range(random.choice((20, 70, 150, 300))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value
