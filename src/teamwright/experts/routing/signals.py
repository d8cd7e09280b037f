"""Estimates the complexity of a task from its text alone: cheap signals, each with its share of the score.

The signals look for what makes a second person useful: several kinds of work, several fields, results that have to be
weighed against each other. They are rough, so a middle score decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from teamwright.experts.profiles.registry import words_of

ENOUGH_FOR_ONE = 0.35
"""Up to this score one agent is enough."""
TEAM_ABOVE = 0.7
"""Strictly above this score a team is suggested."""

ACTIONS = words_of(
    "analyse analyze assess audit build compare debug deploy design develop document draft edit estimate evaluate"
    " forecast implement integrate investigate migrate model negotiate optimise optimize plan prioritise prioritize"
    " propose prototype refactor research review simulate summarise summarize test translate validate verify write"
)
"""Verbs that name a kind of work."""
FIELDS: dict[str, frozenset[str]] = {
    name: words_of(words)
    for name, words in {
        "software": "api app backend code database frontend library microservice parser service software system",
        "security": "attack compliance encryption gdpr privacy security threat vulnerability",
        "data": "data dataset experiment forecast metric ml sql statistics",
        "business": "business competitor customer market pricing revenue roadmap strategy",
        "law": "contract law legal licence license patent regulation regulatory tax",
        "writing": "article book documentation essay newsletter paper report speech whitepaper",
        "operations": "budget deployment hiring incident logistics migration operations rollout supply",
        "science": "clinical hypothesis literature medical physics science study",
    }.items()
}
WEIGHING = words_of(
    "alternative conflict conflicting consensus consequence debate dilemma objection perspective risk stakeholder trade"
)
DEMANDING = words_of("comprehensive critical depth exhaustive production rigorous robust thorough")
QUESTION = re.compile(
    r"\s*(?:what|when|where|who|whom|which|how (?:many|much|old|long|far)|is|are|was|does|did|can)\b", re.IGNORECASE
)
ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,9}[.)])[ \t]", re.MULTILINE)
SHORT_QUESTION = 15


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason for a score: what was counted, how much of it, and what it adds."""

    name: str
    count: int
    adds: float

    def __str__(self) -> str:
        return f"{self.name} {self.count} ({self.adds:+.2f})"


@dataclass(frozen=True, slots=True)
class Complexity:
    """The complexity of a task from 0 to 1, with the signals that it is the sum of."""

    score: float
    signals: tuple[Signal, ...] = ()

    @property
    def is_enough_for_one(self) -> bool:
        """Whether one agent is enough for certain."""
        return self.score <= ENOUGH_FOR_ONE

    @property
    def suggests_team(self) -> bool:
        """Whether a team is suggested."""
        return self.score > TEAM_ABOVE

    def __str__(self) -> str:
        reasons = ", ".join(map(str, self.signals))
        return f"{self.score:.2f}" + (f" ({reasons})" if reasons else "")


def estimate_complexity(task: str) -> Complexity:
    """Estimate the complexity of a task from its words."""
    signals = tuple(signal for signal in _signals(task) if signal.adds)
    return Complexity(round(min(1.0, max(0.0, sum(one.adds for one in signals))), 4), signals)


def _signals(task: str) -> Iterator[Signal]:
    words = words_of(task)
    length = len(task.split())
    actions = len(words & ACTIONS)
    fields = sum(bool(words & known) for known in FIELDS.values())
    items = len(ITEM.findall(task))
    yield Signal("kinds of work", actions, min(0.4, 0.13 * max(0, actions - 1)))
    yield Signal("fields", fields, min(0.3, 0.15 * max(0, fields - 1)))
    yield Signal("parts", items, min(0.2, 0.05 * items))
    yield Signal("words about weighing", len(words & WEIGHING), min(0.2, 0.1 * len(words & WEIGHING)))
    yield Signal("words about demands", len(words & DEMANDING), min(0.1, 0.1 * len(words & DEMANDING)))
    yield Signal("words", length, round(min(0.3, length / 1000), 4))
    if QUESTION.match(task) and length <= SHORT_QUESTION:
        yield Signal("short question", 1, -0.3)
