"""Names the steps of a run whose change could fix it, from what the record shows. A name is a guess until it is tried.

Pure: it reads texts and outcomes, and asks no one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teamwright.values.value import Record

FAILED, NOT_PASSED, TOOL_FAILED, NAMED, DOUBTED, MADE_UP, LOST, NEW_NUMBER = 3.0, 3.0, 2.0, 2.0, 1.0, 1.5, 1.0, 0.5
EARLY = 0.3
"""The advantage of the first step over the last, where nothing else speaks for either: faults spread forwards."""
MOST_SHOWN = 3
_DOUBT = re.compile(
    r"\b(wrong|incorrect|mistakes?|errors?|inaccurate|contradicts?|inconsistent|not (?:correct|right|true)|"
    r"doesn't match|does not match|discrepanc(?:y|ies))\b",
    re.IGNORECASE,
)
_MADE_UP = re.compile(
    r"\b(assum(?:e|es|ed|ing|ption|ptions)|simulated?|hypothetical|suppose|placeholder|made[- ]up|mock)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")
_TERM = re.compile(r"\"([^\"\n]{2,60})\"|\b([A-Z]{2,}[A-Z0-9-]*|[A-Za-z]+-\d+)\b")


@dataclass(frozen=True, slots=True)
class StepText:
    """One step of a run: what it was asked and said, and how it ended. `number` is that of the event that began it."""

    key: str
    member: str
    text: str
    number: int = 0
    failure: str = ""
    not_passed: str = ""
    failed_tools: tuple[str, ...] = ()


class Suspect(Record, frozen=True):
    """A step whose change could fix the run, and why, with the strongest sign first."""

    key: str
    member: str
    number: int
    score: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sign:
    place: int
    weight: float
    why: str


def suspects(task: str, steps: Sequence[StepText]) -> list[Suspect]:
    """Return all steps, the most suspicious first."""
    signs = [*_outcomes(steps), *_doubts(steps), *_contents(task, steps)]
    found: list[Suspect] = []
    for place, step in enumerate(steps):
        own = sorted((one for one in signs if one.place == place), key=lambda one: -one.weight)
        early = EARLY * (1 - place / len(steps))
        why = tuple(dict.fromkeys(one.why for one in own))[:MOST_SHOWN]
        score = round(sum(one.weight for one in own) + early, 3)
        found.append(Suspect(key=step.key, member=step.member, number=step.number, score=score, why=why))
    return sorted(found, key=lambda one: -one.score)


def _outcomes(steps: Sequence[StepText]) -> Iterator[_Sign]:
    for place, step in enumerate(steps):
        if step.failure:
            yield _Sign(place, FAILED, f"it failed: {step.failure}")
        if step.not_passed:
            yield _Sign(place, NOT_PASSED, f"its review did not pass: {step.not_passed}")
        for tool in step.failed_tools:
            yield _Sign(place, TOOL_FAILED, f"its tool {tool} failed")


def _doubts(steps: Sequence[StepText]) -> Iterator[_Sign]:
    """Steps that a later one doubts: those of a member that it names, else the one before it by another member."""
    names = {step.member for step in steps}
    for place, step in enumerate(steps):
        if not _DOUBT.search(step.text):
            continue
        others = {name for name in names - {step.member} if re.search(rf"\b{re.escape(name)}\b", step.text)}
        before = range(place - 1, -1, -1)
        why = f"{step.member} doubts it"
        if others:
            for name in others:
                earlier = next((one for one in before if steps[one].member == name), None)
                if earlier is not None:
                    yield _Sign(earlier, NAMED, why)
        elif (earlier := next((one for one in before if steps[one].member != step.member), None)) is not None:
            yield _Sign(earlier, DOUBTED, why)


def _contents(task: str, steps: Sequence[StepText]) -> Iterator[_Sign]:
    """What steps made up, left out, or said in numbers that no one had given them."""
    numbers, kept = set(_NUMBER.findall(task)), _terms(task)
    for place, step in enumerate(steps):
        if found := _MADE_UP.search(step.text):
            yield _Sign(place, MADE_UP, f"it makes something up ({found[0].lower()!r})")
        own = set(_NUMBER.findall(step.text))
        if new := sorted(own - numbers):
            yield _Sign(place, NEW_NUMBER, f"it is the first to say {', '.join(new[:3])}")
        numbers |= own
        lost = sorted(one for one in kept if one.casefold() not in step.text.casefold())
        if lost and (len(lost) < len(kept) or place == 0):
            yield _Sign(place, LOST, f"it leaves out {', '.join(map(repr, lost[:3]))}")
        kept = kept - set(lost) if lost else kept


def _terms(text: str) -> set[str]:
    """What a task names exactly: texts in quotes, abbreviations and identifiers."""
    return {quoted or word for quoted, word in _TERM.findall(text)}


def baseline_member(steps: Sequence[StepText]) -> str:
    """The most frequent speaker: the guess that a naming has to beat."""
    names = [step.member for step in steps]
    return max(dict.fromkeys(names), key=names.count)
