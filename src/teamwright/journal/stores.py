"""Stores beside the runs of a journal: notes that agents keep, budgets of tenants, and what is known of tokens.

Each is a property of a journal that keeps it. A note is written and forgotten once for each key, however often the call
is repeated. An operator sets a budget, and a run that names one reserves the most that it may spend with its first
event, in one commit. Token rates are an aid and no record: a run needs none of them to resume, and of several processes
that write at once the last one wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol, get_args
from unicodedata import combining, normalize

from msgspec import Struct

from teamwright.errors import BudgetUnavailable, UsageError
from teamwright.wings import hint

WORD = re.compile(r"\w+")
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
"""Matches a character of Chinese or Japanese."""
SHORTEST_PART = 3
MOST_PARTS = 100
"""How many parts of words are looked for: a model may send a query of any length."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note: its text, the memory that it belongs to, and who wrote it when."""

    id: int
    memory: str
    text: str
    author: str
    run_id: str
    time: float


class Notes(Protocol):
    """A store of notes, in named memories."""

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:
        """Add a note and return it with its id; the note with the same key or text, if there is one.

        Returns `None` if the memory holds `most` notes already.
        """
        ...

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain any of the words, the best match first; the newest ones without words.

        If no note contains one, return those that are similar.
        """
        ...

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        """Remove a note; returns whether it was there before the first call with this key."""
        ...

    async def memories(self) -> dict[str, int]:
        """Return the number of notes in each memory, by name."""
        ...


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def rank_notes(newest_first: Sequence[Note], words: Sequence[str], limit: int) -> list[Note]:
    """Return the notes that contain most of the words; if none contains one, those that are similar."""
    if not words:
        return list(newest_first[:limit])
    wanted = set(words)
    found = best_matches(newest_first, lambda one: len(wanted & set(words_of(one.text))), limit)
    return found or similar_notes(newest_first, words, limit)


def similar_notes(notes: Sequence[Note], words: Sequence[str], limit: int) -> list[Note]:
    """Return the notes that contain most of the words as parts of words, whatever their case and accents.

    A search that finds no whole word ends here. Chinese and Japanese have no space between words, so any two characters
    in sequence count there.
    """
    parts = dict.fromkeys(part for word in words for part in _parts(_folded(word)))
    wanted = list(parts)[:MOST_PARTS]

    def score(note: Note) -> int:
        text = _folded(note.text)
        return sum(part in text for part in wanted)

    return best_matches(notes, score, limit)


def best_matches(notes: Sequence[Note], score: Callable[[Note], int], limit: int) -> list[Note]:
    """Return the notes with the highest scores above 0, in the given order among equals."""
    scored = [(score(one), one) for one in notes]
    return [one for found, one in sorted(scored, key=lambda pair: -pair[0]) if found][:limit]


def _folded(text: str) -> str:
    """Return a text without accents and differences of case."""
    return "".join(one for one in normalize("NFKD", text.casefold()) if not combining(one))


def _parts(word: str) -> list[str]:
    """Return the parts of a word to look for; one or two letters are part of too many words."""
    if UNSPACED.search(word):
        return [word[at : at + 2] for at in range(len(word) - 1)] or [word]
    return [word] if len(word) >= SHORTEST_PART else []


@dataclass(frozen=True, slots=True)
class SharedNotes:
    """The notes that the agents of one run can reach; `team` is its outermost team."""

    notes: Notes | None
    team: str


SHARED_NOTES: ContextVar[SharedNotes | None] = ContextVar("notes", default=None)
"""The notes of the run that the current task belongs to."""


Period = Literal["day", "week", "month", "ever"]
PERIODS: tuple[Period, ...] = get_args(Period)
"""Periods begin at midnight UTC, a week on Monday."""
PICODOLLARS = 10**12


class BudgetClaim(Struct, frozen=True):
    """What a run reserves of a budget: the most that it may spend, money in picodollars."""

    budget: str
    usd: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TenantBudget:
    """A budget in its present period, money in picodollars; a bound of `None` does not exist.

    `until` is the end of the period, empty for a budget without periods. `runs` hold reservations.
    """

    name: str
    usd: int | None
    tokens: int | None
    per: Period
    spent_usd: int = 0
    spent_tokens: int = 0
    reserved_usd: int = 0
    reserved_tokens: int = 0
    until: str = ""
    runs: int = 0

    @property
    def left_usd(self) -> int | None:
        """Money that is neither spent nor reserved."""
        return None if self.usd is None else self.usd - self.spent_usd - self.reserved_usd

    @property
    def left_tokens(self) -> int | None:
        """Tokens that are neither spent nor reserved."""
        return None if self.tokens is None else self.tokens - self.spent_tokens - self.reserved_tokens


class Budgets(Protocol):
    """The budgets of tenants, and what runs hold of them."""

    async def put(self, name: str, usd: int | None, tokens: int | None, per: Period) -> None:
        """Set a budget, or change it; what was spent and reserved stays."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove a budget; returns whether there was one. Runs that name it go on within their own limits."""
        ...

    async def all(self) -> list[TenantBudget]:
        """Return all budgets, by name."""
        ...

    async def find(self, name: str) -> TenantBudget | None: ...

    async def reserve(self, run_id: str, claim: BudgetClaim) -> None:
        """Let a run hold at least this much; raises `BudgetUnavailable`."""
        ...

    async def settle(self, run_id: str, spent: BudgetClaim | None) -> bool:
        """Replace what a run holds by what it has spent, once; by all that it holds if that is unknown."""
        ...

    async def unsettled(self) -> Sequence[tuple[str, bool]]:
        """Return the runs that hold reservations and have ended, or were deleted, and whether their record exists."""
        ...


def money_text(picodollars: int) -> str:
    """An amount of money in words; fractions of a cent are shown."""
    return f"${picodollars / PICODOLLARS:,.6f}".rstrip("0").removesuffix(".")


def tokens_text(count: int) -> str:
    """A number of tokens in words."""
    return f"{count:,} tokens"


def unknown_budget(name: str) -> UsageError:
    """The error for a budget that does not exist."""
    command = hint("set_budget", name=name)
    how = f"with  {command}" if command else "first."
    return UsageError(f"There is no budget {name!r}; the operator sets one {how}")


def unbounded_run(name: str, unit: Literal["usd", "tokens"]) -> UsageError:
    """The error for a run without a limit that its budget needs."""
    what, option = ("money", "--max-usd") if unit == "usd" else ("tokens", "--max-tokens")
    return UsageError(
        f"The budget {name!r} bounds {what}, and the run has no such limit, which would be reserved while it runs: give"
        f" it one with {option}, or in the manifest."
    )


def no_room(name: str, unit: Literal["usd", "tokens"], needed: int, left: int, most: int, until: str) -> str:
    """Say that a budget has no room for what a run may spend."""
    shown = money_text if unit == "usd" else tokens_text
    when = f" until {until}" if until else ""
    return (
        f"The budget {name!r} has {shown(max(0, left))} of {shown(most)} left{when}, and the run needs {shown(needed)}:"
        " give the run a lower limit, or wait until other runs have ended or the next period has begun."
    )


def budget_refusal(name: str, why: str, needed: int, left: int, most: int, until: str) -> BudgetUnavailable:
    """The error for what the store of budgets has refused."""
    match why:
        case "usd" | "tokens":
            return BudgetUnavailable(no_room(name, why, needed, left, most, until))
        case "no usd" | "no tokens":
            return BudgetUnavailable(str(unbounded_run(name, "usd" if why == "no usd" else "tokens")))
        case _:
            return BudgetUnavailable(str(unknown_budget(name)))


class TokenRates(Protocol):
    """A store of one text for each model: the latest requests that its tokens per byte are learnt from."""

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last, if anything."""
        ...

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model, in place of what was saved before."""
        ...
