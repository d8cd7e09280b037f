"""The conversation of a team while it runs: what its members are told, and how it ends."""

from __future__ import annotations

import warnings

from teamwright.strategies.protocol import Task
from teamwright.values.messages import EMPTY, Conversation, History, Message
from teamwright.values.results import Outcome, StopReason
from teamwright.values.turns import Failure, Reply, Turn

AT_ITS_LIMIT = "stopped at its limit of "
"""How the warning of a team begins that stopped at a limit on its turns."""


def tells_of_own_limit(warning: str) -> bool:
    """Whether a warning of a nested team, which has the team's name before it, tells of a limit of that very team."""
    return warning.partition(": ")[2].startswith(AT_ITS_LIMIT)


def lasting_warnings(reply: Reply) -> list[str]:
    """The warnings of a reply that still hold for the asker.

    A nested team that has used up its turns has ended well, so the warning of its own limit is left out.
    """
    at_limit = reply.stop_reason == "max_turns"
    return [text for text in reply.warnings if not (at_limit and tells_of_own_limit(text))]


class Talk:
    """A team's conversation while it runs: what the next member is told, and what has been said.

    With `share: transcript` a member is told everything, the task last. With `share: output` it is told only what the
    one before said, as its task. With `share: a2a_lite` replies are envelopes already, and all of them are told.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._said = Conversation()
        self._said.extend(task.history)
        self._start = len(self._said)
        self._last: Reply | None = None
        self.warnings: list[str] = []
        self.short_of_budget = False

    def turn(self, number: int) -> Turn:
        """What the next member is told."""
        if self._task.settings.share != "output":
            return Turn(self._task.text, self._said.history(), number)
        if self._last is None:
            return Turn(self._task.text, self._task.history, number)
        return Turn(self._last.text, EMPTY, number)

    def add(self, reply: Reply) -> None:
        """Take in what a member said."""
        self._said.extend(reply.messages)
        self._last = reply
        self.warnings += lasting_warnings(reply)
        if reply.stop_reason == "budget":
            self.short_of_budget = True

    def warn(self, reply: Reply) -> None:
        """Keep the warnings of a reply that is not part of the conversation, such as a selector's, each once."""
        self.warnings += [text for text in lasting_warnings(reply) if text not in self.warnings]

    def receive(self, reply: Reply | Failure) -> Outcome | None:
        """Add the result of an ask; return the outcome if it ends the team."""
        if isinstance(reply, Failure):
            if not reply.optional:
                return self.failed(reply)
            self.warnings += reply.skipped
            return None
        self.add(reply)
        return self.ended("terminated") if reply.signal == "terminate" else None

    def take(self, reply: Reply | Failure) -> Outcome | None:
        """Deprecated: use `receive`."""
        warnings.warn("Talk.take is now Talk.receive", DeprecationWarning, stacklevel=2)
        return self.receive(reply)

    @property
    def history(self) -> History:
        """The whole conversation so far, with what the caller brought."""
        return self._said.history()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said in this run, without the history that the caller brought."""
        return self._said.since(self._start)

    def ended(self, stop_reason: StopReason, *warnings: str) -> Outcome:
        """The outcome when all went well: the last reply is the answer.

        Where the budget did not pay for all of the work, that is what stopped it.
        """
        last = self._last
        if self.short_of_budget and stop_reason == "done":
            stop_reason = "budget"
        return Outcome(
            stop_reason=stop_reason,
            messages=self.messages,
            data=last.full.data if last else None,
            warnings=(*self.warnings, *warnings),
        )

    def failed(self, failure: Failure) -> Outcome:
        """The outcome when a member's failure ends the team; what was said is kept."""
        return Outcome(stop_reason="error", messages=self.messages, failure=failure, warnings=tuple(self.warnings))
