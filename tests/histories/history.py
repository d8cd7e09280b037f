"""A recorded history: the events, bodies and result of one run, as a readable file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teamwright.journal.codec import decode_events, to_text
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.values.events.event import Event
from teamwright.values.turns.results import RunResult

FOLDER = Path(__file__).parent
RUN_ID = "recorded"
VOLATILE = {"run_id", "started_at", "seconds"}


@dataclass(frozen=True)
class History:
    """One history."""

    events: list[Event]
    bodies: dict[str, str]
    result: dict[str, Any]

    @classmethod
    def load(cls, name: str, run_id: str = RUN_ID) -> History:
        """Read the history of this name, as one of the run `run_id`."""
        return cls.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"), run_id)

    @classmethod
    def loads(cls, text: str, run_id: str) -> History:
        """Read a history from its text."""
        content = json.loads(text)
        rows = [
            (
                one["number"],
                one["time"],
                one["scope"],
                one["place"],
                one["kind"],
                json.dumps(one["data"]),
                one["version"],
            )
            for one in content["events"]
        ]
        bodies = {key: _compact(value) for key, value in content["bodies"].items()}
        return cls(decode_events(run_id, rows), bodies, content["result"])

    def save(self, name: str) -> None:
        """Write it where it is found again."""
        (FOLDER / f"{name}.json").write_text(self.dumps() + "\n", encoding="utf-8")

    def dumps(self) -> str:
        """Return it as a text."""
        events = [
            {
                "number": one.number, "time": one.time, "scope": one.scope, "place": one.place, "kind": one.kind,
                "version": one.version, "data": json.loads(to_text(one.fact)),
            }
            for one in self.events
        ]  # fmt: skip
        bodies = {key: json.loads(text) for key, text in sorted(self.bodies.items())}
        content = {"result": self.result, "events": events, "bodies": bodies}
        return json.dumps(content, indent=1, ensure_ascii=False)

    def journal(self, number: int | None = None) -> MemoryJournal:
        """A journal that ends after this many events, by default just before the end of the run."""
        made = MemoryJournal()
        events = self.events[: len(self.events) - 1 if number is None else number]
        made.append(Batch(events, self.bodies), lambda _: None)
        return made


def _compact(value: object) -> str:
    """The text of a body as it is recorded, whose hash is its key."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def comparable(result: RunResult) -> dict[str, Any]:
    """The result that a replay must have."""
    return {name: value for name, value in result.to_json().items() if name not in VOLATILE}
