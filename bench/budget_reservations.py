"""How much more than its real tokens a prompt reserves, by kind of text: by bytes, by tokenizer, and by learnt rates.

`python -m bench.budget_reservations` prints the table; `reservations` returns it. Needs the extra `tokens`. The real
number of tokens is that of OpenAI's chat format: four for each message, three for the answer, and those of the texts.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple

from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.tokenizers import CountTokens, load_tokenizer
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.values.usage_and_prices import Usage
from tests.kit.prompt_corpus import KINDS, draw_text

Method = Literal["bytes", "tokenizer", "learnt"]
METHODS: tuple[Method, ...] = ("bytes", "tokenizer", "learnt")
PROMPTS = 200
LESSONS = 200
"""The requests that rates are learnt from, of all kinds in turn."""
MESSAGES, SHORTEST, LONGEST = 5, 100, 3000
MODELS: dict[Method, str] = {"bytes": "gpt-5", "tokenizer": "gpt-5", "learnt": "unknown"}
GOALS: dict[Method, float] = {"tokenizer": 1.3, "learnt": 2.0}
"""The largest permitted ratio on English and code."""


class ReservationRow(NamedTuple):
    """One kind of text: reserved prompt tokens over real ones, the largest such ratio, and how often it is below 1."""

    method: Method
    kind: str
    ratio: float
    largest: float
    exceeded: float

    @property
    def meets_goal(self) -> bool:
        """Whether the ratio is as small as wanted, where something is wanted."""
        return self.kind not in ("english", "code") or self.ratio <= GOALS.get(self.method, float("inf"))


def reservations(
    methods: Sequence[Method] = METHODS, kinds: Sequence[str] = KINDS, prompts: int = PROMPTS
) -> list[ReservationRow]:
    """Return a row for each method and kind of text; the same for the same version of the tokenizer."""
    count = load_tokenizer("o200k_base")
    if count is None:
        raise SystemExit("bench.budget_reservations needs the extra: pip install 'teamwright[tokens]'")
    return asyncio.run(_rows(methods, kinds, prompts, count))


async def _rows(
    methods: Sequence[Method], kinds: Sequence[str], prompts: int, count: CountTokens
) -> list[ReservationRow]:
    rows: list[ReservationRow] = []
    for method in methods:
        meter = PromptMeter()
        if method == "learnt":
            await _teach(meter, count)
        for kind in kinds:
            random = Random(kind)
            pairs = [await _reserved_and_real(meter, method, kind, random, count) for _ in range(prompts)]
            reserved, real = map(sum, zip(*pairs, strict=True))
            ratios = [one / other for one, other in pairs]
            below = sum(ratio < 1 for ratio in ratios) / len(ratios)
            rows.append(ReservationRow(method, kind, reserved / real, max(ratios), below))
    return rows


async def _teach(meter: PromptMeter, count: CountTokens) -> None:
    random = Random(0)
    for number in range(LESSONS):
        effect = _effect(MODELS["learnt"], KINDS[number % len(KINDS)], random)
        bound = await meter.bound(effect, strict=False)
        meter.learn(effect, bound, Usage(requests=1, input_tokens=_real(effect, count)))


async def _reserved_and_real(
    meter: PromptMeter, method: Method, kind: str, random: Random, count: CountTokens
) -> tuple[int, int]:
    effect = _effect(MODELS[method], kind, random)
    bound = await meter.bound(effect, strict=method == "bytes")
    return bound.tokens, _real(effect, count)


def _effect(model: str, kind: str, random: Random) -> Effect:
    texts = [draw_text(kind, random, random.randrange(SHORTEST, LONGEST)) for _ in range(MESSAGES)]
    size = sum(len(text.encode()) for text in texts)
    return Effect("model", model, "request", _never, size, MESSAGES, model=model, texts=texts)


def _real(effect: Effect, count: Callable[[str], int]) -> int:
    return sum(map(count, effect.texts)) + 4 * effect.messages + 3


async def _never(attempt: Attempt) -> Returned:
    raise AssertionError("nothing is sent here")


def reservation_table(rows: Sequence[ReservationRow]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'method':<11}{'kind':<10}{'reserved / real':>16}{'largest':>9}{'exceeded':>10}"
    for row in rows:
        yield f"{row.method:<11}{row.kind:<10}{row.ratio:>16.2f}{row.largest:>9.2f}{row.exceeded:>10.1%}"


def main() -> None:
    """Print the table, and exit with 1 if a goal is missed."""
    rows = reservations()
    print(*reservation_table(rows), sep="\n")
    raise SystemExit(not all(row.meets_goal for row in rows))


if __name__ == "__main__":
    main()
