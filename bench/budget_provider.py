"""A provider on loopback that counts tokens itself: what budgets are measured by, independently of Teamwright.

It speaks chat completions, prices input and output apart, honours the output cap, and keeps a bill. A request carries a
tag, by which it knows what to answer; the same tag gets an answer of the same length, whatever else the prompt says. A
request without a tag is the next one of the member that its first message names.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any, Literal, Self

from bench.instant_server import Chat, respond, respond_in_chunks
from teamwright.agents.tokenizers import load_tokenizer
from tests.kit.prompt_corpus import draw_text

Tokenizer = Literal["known", "unknown"]
INPUT, OUTPUT = 1.25, 10.0
"""Dollars per million tokens."""
ECONOMY = 0.2
"""The share of a price that the economy model has."""
FRAME, REQUEST = 4, 3
"""Tokens that the provider adds to each message, and to a request."""
TAG = re.compile(r"\[([a-z]\S*\.\d+\.[a-z_]+)\]")
MEMBER = re.compile(r"You are (m\d+)\.")
SPLIT = re.compile(r"[A-Za-z]{1,5}|\d|[^\sA-Za-z\d]| +(?= )|\n")
"""The tokens of the model whose tokenizer is not known to others."""


def names_of(tokenizer: Tokenizer) -> tuple[str, str]:
    """Return the names of the model and of its economy model."""
    return ("gpt-5", "gpt-5-mini") if tokenizer == "known" else ("house-large", "house-small")


@cache
def _words() -> list[str]:
    return re.findall(r"[A-Za-z']+", draw_text("english", random.Random(1), 60_000))


def _count_known() -> Callable[[str], int]:
    count = load_tokenizer("o200k_base")
    if count is None:
        raise SystemExit("bench.budgets needs the tokenizer of its known model: the extra `tokens`")
    return count


def count_unknown(text: str) -> int:
    """Count the tokens of a text as the model with an unknown tokenizer does."""
    return len(SPLIT.findall(text))


@dataclass
class Bill:
    """What one run was charged by the provider."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0
    last_is_whole: bool = True
    last_member: str = ""
    cut: int = 0
    by_member: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Provider:
    """The server. `answers` has the structured answer for a tag; others get prose of a length that the tag decides."""

    tokenizer: Tokenizer = "known"
    seed: int = 0
    lengths: tuple[int, int] = (120, 480)
    bill: Bill = field(default_factory=Bill)
    answers: dict[str, str] = field(default_factory=dict[str, str])
    port: int = 0

    def __post_init__(self) -> None:
        self._count = _count_known() if self.tokenizer == "known" else count_unknown
        self._counted: dict[str, int] = {}

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(lambda: Chat(self._respond), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    def new_run(self, seed: int, lengths: tuple[int, int]) -> None:
        """Begin a new bill."""
        self.bill, self.seed, self.lengths, self.answers = Bill(), seed, lengths, {}

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        if text not in self._counted:
            self._counted[text] = self._count(text)
        return self._counted[text]

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a request, and add it to the bill."""
        texts = [_text(one) for one in body["messages"]]
        extra = [json.dumps(body[name]) for name in ("tools", "response_format") if body.get(name)]
        prompt = sum(map(self.count, (*texts, *extra))) + FRAME * len(texts) + REQUEST
        cap = body.get("max_completion_tokens") or body.get("max_tokens") or 100_000
        words, used = self._answer(self._tag(texts)), 0
        for kept, word in enumerate(words):
            if used + (size := self.count(word)) > cap:
                words = words[:kept]
                break
            used += size
        else:
            kept = -1
        price = ECONOMY if body["model"] == names_of(self.tokenizer)[1] else 1.0
        bill = self.bill
        bill.requests, bill.tokens = bill.requests + 1, bill.tokens + prompt + used
        bill.usd += price * (INPUT * prompt + OUTPUT * used) / 1e6
        bill.last_is_whole, bill.cut = kept < 0, bill.cut + (kept >= 0)
        message = {"role": "assistant", "content": "".join(words)}
        reason = "stop" if kept < 0 else "length"
        usage = {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        return {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": choices} | {
            "usage": usage
        }

    def _tag(self, texts: list[str]) -> str:
        """Return the tag of a request with these messages."""
        tag = next((found for text in reversed(texts) for found in reversed(TAG.findall(text))), "")
        if not tag and (named := MEMBER.search(texts[0])):
            self.bill.by_member[named[1]] += 1
            tag = f"{named[1]}.{self.bill.by_member[named[1]]}.turn"
        self.bill.last_member = tag.partition(".")[0]
        return tag

    def _respond(self, body: bytes) -> bytes:
        request = json.loads(body)
        answer = self.complete(request)
        if not request.get("stream"):
            return respond(answer)
        choice, chunk = answer["choices"][0], {**answer, "object": "chat.completion.chunk", "usage": None}
        told = {"index": 0, "delta": choice["message"], "finish_reason": choice["finish_reason"]}
        return respond_in_chunks([{**chunk, "choices": [told]}, {**chunk, "choices": [], "usage": answer["usage"]}])

    def _answer(self, tag: str) -> list[str]:
        if tag in self.answers:
            return re.findall(r"\w+|\W+", self.answers[tag])
        chance = random.Random(sha256(f"{self.seed} {tag}".encode()).digest())
        words, length, found = _words(), chance.randint(*self.lengths), list[str]()
        at = chance.randrange(len(words))
        while length > 0:
            found.append(" " + words[at % len(words)])
            length -= self.count(found[-1])
            at += 1
        return found


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
