"""Texts of every kind that prompts are made of: prose, code, Chinese, emoji, base64, long numbers."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KINDS: Final = ("english", "code", "chinese", "emoji", "base64", "numbers", "mixed")
EMOJI: Final = "😀🎉🚀👩‍👩‍👧🏽❤️🔥🤖🧠🫠🇨🇭"
CHINESE: Final = (
    "团队必须在预算之内完成任务否则运行会被降级我们用分词器估计每个请求需要的令牌数量并且提前预留"
    "如果供应商报告的用量超过了上限系统会发出警告而不是保持沉默人工智能代理之间的对话可能很长"
)


def draw_text(kind: str, random: Random, size: int) -> str:
    """Draw a text of about this many characters."""
    match kind:
        case "english":
            return _excerpt(_prose(), random, size)
        case "code":
            return _excerpt(_code(), random, size)
        case "chinese":
            return "".join(random.choices(CHINESE, k=size))
        case "emoji":
            return "".join(random.choices(EMOJI, k=size))
        case "base64":
            return base64.b64encode(random.randbytes(size * 3 // 4)).decode()
        case "numbers":
            return "".join(random.choices("0123456789", k=size))
        case _:
            parts = [draw_text(one, random, max(1, size // 6)) for one in KINDS if one != "mixed"]
            random.shuffle(parts)
            return random.choice(("\n", " ", "")).join(parts)


def _excerpt(text: str, random: Random, size: int) -> str:
    start = random.randrange(max(1, len(text) - size))
    return text[start : start + size]


@cache
def _prose() -> str:
    """Return the prose of some docs, without their code and tables."""
    names = ("money-and-people/budgets.md", "running/durability.md", "money-and-people/people.md", "teams/agents.md")
    paragraphs = "\n\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in names).split("\n\n")
    return "\n\n".join(one for one in paragraphs if one[:1].isalpha())


@cache
def _code() -> str:
    folder = ROOT / "src" / "teamwright" / "runtime"
    return "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
