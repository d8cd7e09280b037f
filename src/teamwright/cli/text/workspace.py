"""The workspace and the figures of a run as text: shared values, artifacts, measurements."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from teamwright.cli.terminal.output import clean, json_text
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunMeasured
from teamwright.values.events.workspace import WorkspaceKept
from teamwright.values.text.display import count_text, size_text
from teamwright.values.turns.artifacts import SharedValue

if TYPE_CHECKING:
    from teamwright.history.history import RunHistory

WIDTH = 78
MOST_LINES = 6
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class WorkspaceSummary:
    """The workspace at the end of the record, and the figures, each with its total and count."""

    values: dict[str, SharedValue]
    artifacts: Sequence[WorkspaceKept]
    figures: dict[str, tuple[float, int]]

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "workspace": {
                "values": {name: held.to_json() for name, held in self.values.items()},
                "artifacts": [kept.artifact.to_json() | {"by": kept.by} for kept in self.artifacts],
            },
            "figures": [
                {"name": name, "total": total, "count": count} for name, (total, count) in self.figures.items()
            ],
        }

    def to_lines(self) -> list[str]:
        """As sections of an explanation, each after an empty line; empty sections are left out."""
        lines: list[str] = []
        for heading, listed in (
            ("Shared values", [line for name, held in self.values.items() for line in _value(name, held)]),
            ("Artifacts", [_artifact(kept) for kept in self.artifacts]),
            ("Figures", [_figure(name, *figure) for name, figure in self.figures.items()]),
        ):
            if listed:
                lines += ["", heading, *listed[:MOST_LISTED]]
            if len(listed) > MOST_LISTED:
                lines.append(f"  … and {len(listed) - MOST_LISTED} more lines; --json has them all")
        return lines


def workspace_summary(history: RunHistory) -> WorkspaceSummary:
    """Return the workspace and the figures of a run."""
    store = history.record.workspace()
    values = {name: held for name in store.names() if (held := store.get(name)) is not None}
    kept = [event.fact for event in history.events if isinstance(event.fact, WorkspaceKept)]
    return WorkspaceSummary(values, list({one.artifact.hash: one for one in kept}.values()), _figures(history.events))


def _figures(events: Sequence[Event]) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for event in events:
        if isinstance(fact := event.fact, RunMeasured):
            total, count = found.get(fact.name, (0.0, 0))
            found[fact.name] = (total + fact.value, count + 1)
    return found


def _value(name: str, held: SharedValue) -> list[str]:
    text = held.value if isinstance(held.value, str) else json_text(held.value, indent=None)
    lines = textwrap.wrap(clean(text), WIDTH - 4) or ["(empty)"]
    shown = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]
    return [f"  {name} (version {held.version}, by {held.by or 'the team'})", *(f"    {line}" for line in shown)]


def _artifact(kept: WorkspaceKept) -> str:
    one = kept.artifact
    return f"  {one.name} ({one.media_type}, {size_text(one.size)}, by {kept.by or 'the team'}), body {one.hash[:12]}…"


def _figure(name: str, total: float, count: int) -> str:
    return f"  {name}: {total:g}" + (f", in {count_text(count, 'measurement')}" if count > 1 else "")
