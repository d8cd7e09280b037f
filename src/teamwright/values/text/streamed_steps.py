"""The steps of a plan while a model writes it: each one as soon as its JSON is complete.

Every character is looked at once, and each step is parsed once. Nothing of it is recorded: the plan itself is.
"""

from __future__ import annotations

from typing import cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.values.text.display import cut

MOST_CHARACTERS, MOST_STEPS = 200_000, 200
"""How much of a text is looked at, and how many steps are shown of it."""
LONGEST_LINE = 160
NAMES, TASKS, MEMBERS = ("id", "name"), ("task", "description"), ("role", "agent", "agents")


class WrittenSteps:
    """Finds the steps in a text that grows: the objects in its outermost list."""

    __slots__ = ("_around", "_depth", "_escaped", "_in_text", "_length", "_pieces", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        """A line for each step so far: `step 1: look – Look it up. (archive)`."""
        self._around: list[str] = []
        self._pieces: list[str] = []
        self._depth = self._length = 0
        self._in_text = self._escaped = False

    def feed(self, text: str) -> tuple[str, ...]:
        """Add a piece of the text; return the lines of the steps that it completes."""
        before, start = len(self.lines), 0
        if self._length >= MOST_CHARACTERS or before >= MOST_STEPS:
            return ()
        self._length += len(text)
        for place, character in enumerate(text):
            if self._in_text:
                self._read_text(character)
            elif character == '"':
                self._in_text = bool(self._around)
            elif character in "{[":
                if not self._depth and character == "{" and self._around[-1:] == ["["]:
                    self._depth, start = len(self._around) + 1, place
                self._around.append(character)
            elif character in "}]" and self._around:
                self._around.pop()
                if self._depth and len(self._around) < self._depth:
                    self._depth = 0
                    self._add("".join((*self._pieces, text[start : place + 1])))
                    self._pieces.clear()
        if self._depth:
            self._pieces.append(text[start:])
        return tuple(self.lines[before:])

    def _read_text(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_text = False

    def _add(self, text: str) -> None:
        try:
            step = cast("JsonValue", from_json(text))
        except ValueError:
            return
        if isinstance(step, dict) and (line := _line(step)) and len(self.lines) < MOST_STEPS:
            self.lines.append(f"step {len(self.lines) + 1}: {line}")


def _line(step: dict[str, JsonValue]) -> str:
    """Return a step in one line; empty for an object that is none."""
    name, task, who = (_first(step, names) for names in (NAMES, TASKS, MEMBERS))
    if not name or not (task or who):
        return ""
    said = cut(" – ".join(filter(None, (name, task))), LONGEST_LINE)
    return f"{said} ({cut(who, LONGEST_LINE)})" if who else said


def _first(step: dict[str, JsonValue], names: tuple[str, ...]) -> str:
    found = next((step[name] for name in names if step.get(name)), "")
    listed = found if isinstance(found, list) else [found]
    return " ".join(", ".join(one for one in listed if isinstance(one, str)).split())
