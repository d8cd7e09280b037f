"""Strict scripts: a run that leaves rules of one unused has not done what its author expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from teamwright.agents.contract.agent import Agent
from teamwright.history.ending import Ending, ending_of
from teamwright.values.turns.turn import Failure


def check_scripts(ending: Ending, team: str, agents: Iterable[Agent], marks: Counter[tuple[str, str]]) -> Ending:
    """Fail a run that would succeed if a strict script has unused rules; `marks` counts the rules used by members."""
    if ending.failure is not None:
        return ending
    from teamwright.agents.scripted import unused_rules

    left = unused_rules(agents, lambda name, mark: marks[name, mark])
    if not left:
        return ending
    text = f"the script is strict, and {'; '.join(left)}"
    failure = Failure(member=team, error="script", message=text, messages=ending.messages)
    return ending_of(failure, ending.usage)
