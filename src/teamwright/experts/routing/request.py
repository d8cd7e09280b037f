"""Reads what a user asks: a task, perhaps with `@team` or `@team:analyst,strategist` before it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from teamwright.errors import UsageError
from teamwright.experts.profiles.formation import MOST_ROLES
from teamwright.values.record_checks import check_text
from teamwright.values.specs.expert import check_expert_name

PREFIX = re.compile(r"\s*@team(?P<names>[:\uff1a][^\s,\uff0c]*(?:[,\uff0c]\s*[^\s,\uff0c]*)*)?(?=\s|$)", re.IGNORECASE)
COMMA = re.compile("[,\uff0c]")
"""Colon and comma may be those of Chinese and Japanese keyboards."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A task, whether a team was asked for, and the experts that were named."""

    task: str
    wants_team: bool = False
    names: tuple[str, ...] = ()


def parse_request(text: str) -> AskRequest:
    """Read a request; raises `UsageError` for a blank task and for names that are none."""
    check_text("text", text)
    found = PREFIX.match(text)
    task = (text[found.end() :] if found else text).strip()
    if not task:
        raise UsageError('There is no task: write  teamwright ask "@team What is to be done"')
    if found is None:
        return AskRequest(task)
    return AskRequest(task, wants_team=True, names=_names(found["names"]))


def _names(written: str | None) -> tuple[str, ...]:
    if written is None or len(written) == 1:
        return ()
    names = tuple(dict.fromkeys(name.strip() for name in COMMA.split(written[1:])))
    for name in names:
        try:
            check_expert_name(name)
        except ValueError as error:
            raise UsageError(f"{error}. Write  @team:analyst,strategist  and then the task.") from None
    if len(names) > MOST_ROLES:
        raise UsageError(f"A team has at most {MOST_ROLES} experts, and {len(names)} are named.")
    return names
