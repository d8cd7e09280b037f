"""What a client of `/v1` sees of a run while it goes on: the answer as content, what is said on the way as reasoning.

The answer is known as such while it is written where one member gives it, the last of a sequence.
Members who write at the same time come one after the other. Texts arrive masked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from teamwright.server.feeds.projection import Frame
from teamwright.strategies.handoffs import handoff_targets
from teamwright.strategies.protocol import Members

if TYPE_CHECKING:
    from teamwright.teams.team import Team

Json = dict[str, Any]
Piece = tuple[Literal["content", "reasoning_content"], str]
ENDED = frozenset(("agent.replied", "agent.failed"))


@dataclass(slots=True)
class _Turn:
    """A turn that is being written: what was passed on of it, and what waits for another speaker to end."""

    name: str
    is_answer: bool
    passed: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])


class CompletionText:
    """Folds the items of a run into pieces of text."""

    def __init__(self, team: Team) -> None:
        self._last = team.members[-1].name if _answers_last(team) else None
        self._root: str | None = None
        self._turns: dict[str, _Turn] = {}
        self._speaker: str | None = None
        self._content: list[str] = []

    def pieces(self, frame: Frame) -> Iterator[Piece]:
        """Yield what an item of the run adds."""
        if frame.kind == "delta.text":
            yield from self._write(json.loads(frame.text))
        elif frame.kind == "agent.asked":
            self._begin(json.loads(frame.text))
        elif frame.kind in ENDED:
            yield from self._end(json.loads(frame.text))

    def rest(self, output: str) -> str:
        """Return what is missing of the answer at the end of the run; all of it, where it is not what was passed on."""
        rest = _rest(output, self._content)
        return f"\n\n{output}" if rest is None else rest

    def _begin(self, item: Json) -> None:
        if item["member_kind"] == "team":
            self._root = item["key"] if self._root is None else self._root
            return
        is_answer = item["member"] == self._last and item["scope"] == self._root and not self._content
        self._turns[item["key"]] = _Turn(item["member"], is_answer)

    def _write(self, item: Json) -> Iterator[Piece]:
        turn = self._turns.get(item["key"])
        if turn is None or item["output"] is not None:
            return
        if item["offset"] == 0:
            turn.waiting = []
            if turn.passed:  # another attempt: what was passed on can't be taken back
                turn.is_answer, turn.passed = False, []
        turn.waiting.append(item["text"])
        self._speaker = self._speaker or item["key"]
        if self._speaker == item["key"]:
            yield from self._pass(turn)

    def _pass(self, turn: _Turn) -> Iterator[Piece]:
        text, head = "".join(turn.waiting), "" if turn.passed else f"{turn.name}: "
        turn.waiting = []
        turn.passed.append(text)
        if turn.is_answer:
            self._content.append(text)
            yield "content", text
        else:
            yield "reasoning_content", head + text

    def _end(self, item: Json) -> Iterator[Piece]:
        turn = self._turns.pop(item["key"], None)
        if turn is None:  # a team, which repeats what its members have said
            return
        said = "\n\n".join(one["content"] for one in item.get("texts", {}).get("messages", ()))
        if not turn.is_answer and said:
            rest = _rest(said, turn.passed) if turn.passed else None
            yield "reasoning_content", (f"{turn.name}: {said}" if rest is None else rest) + "\n\n"
        if self._speaker == item["key"]:
            self._speaker = next((key for key, one in self._turns.items() if one.waiting), None)
            if self._speaker is not None:
                yield from self._pass(self._turns[self._speaker])


def _rest(text: str, passed: list[str]) -> str | None:
    """Return what follows the pieces of a text that were passed on, but for blanks around it; `None` if it differs."""
    whole = "".join(passed)
    for told in (whole, whole.strip()):
        if text.startswith(told):
            return text[len(told) :]
    return None


def _answers_last(team: Team) -> bool:
    """Whether the reply of the last member, as it is written, is the answer of the team."""
    names = [member.name for member in team.members]
    if team.strategy.name != "sequential" or names.count(names[-1]) > 1 or handoff_targets(Members(team.members)):
        return False
    return team.members[-1].policy.approve is None and team.policy.approve is None
