"""Recovery of a failed ask, by policy and in this order: a shorter context, a fallback, a person.

Retries of single calls come before all this, inside the turn (`values/retries.py`). If nothing helps, the failure is
the ending of the ask.
"""

from __future__ import annotations

from typing import NoReturn

from teamwright.agents.agent import Agent
from teamwright.agents.compaction import CHUNK, split_transcript, summary_message, summary_turn, with_summary
from teamwright.agents.review import REJECTED
from teamwright.errors import InvalidRequest
from teamwright.runtime.context.ask import Ask
from teamwright.runtime.context.turn_outcome import emit_fact
from teamwright.runtime.people.questions import ApprovalGate, ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import AgentRecovered
from teamwright.values.events.run import RunAborted
from teamwright.values.people import ABORT, Question
from teamwright.values.retries import Recovery, TooLong
from teamwright.values.run_keys import SEPARATOR, key_below_root, with_attempt
from teamwright.values.turns.turn import Failure, Reply

UNRECOVERABLE = frozenset(("budget", "cancelled", "deadline", REJECTED))
"""Failures after which nothing is tried: the run is being stopped, or a person has rejected."""
NO_RECOVERY = Recovery.model_construct()


class AskRecovery:
    """One failed ask, and its further attempts."""

    def __init__(self, ask: Ask, scope: Scope, member: Agent, key: str) -> None:
        self._scope, self._member, self._key = scope, member, key
        self._turn, self._attempt, self._gate, self._new_context = ask.turn, ask.attempt, ask.gate, ask.new_context
        self._policy, self._recovery = member.policy, scope.recovery or NO_RECOVERY
        self._questions_asked = 0

    @staticmethod
    def is_recoverable(failure: Failure) -> bool:
        """Whether anything is tried after this failure."""
        return failure.error not in UNRECOVERABLE

    async def resolve(self, failure: Failure) -> Reply | Failure:
        """Try each means of recovery and return the final ending."""
        ending: Reply | Failure = failure
        if failure.error == "context_length" and self._too_long == "summarise":
            ending = await self._ask_with_summary(failure)
        if isinstance(ending, Failure) and self.is_recoverable(ending) and (other := self._fallback()):
            self._record(ending, "fell_back", other.name)
            ending = _with_warning(ending, other.name, await self._ask_again(other))
        while isinstance(ending, Failure) and self.is_recoverable(ending) and self._policy.critical:
            match await self._ask_person(ending):
                case "retry":
                    ending = await self._ask_again(self._member)
                case "skip":
                    return ending.changed(optional=True)
                case _:
                    await abort_run(self._scope, ending)
        return ending

    @property
    def _too_long(self) -> TooLong:
        return self._policy.too_long or self._recovery.too_long or "summarise"

    def _fallback(self) -> Agent | None:
        """Return the member's fallback, or the team's, unless that is the member itself.

        A team never stands in for its own members, which would recurse without end.
        """
        own, scope = self._policy.fallback, self._scope
        other = own or scope.fallback
        if other is None or other is self._member:
            return None
        if own is None and other.name == self._member.name:  # the member on a worker, for which this one stands
            return None
        return None if other.kind == "team" and scope.is_within(other.name) else other

    async def _ask_again(self, member: Agent) -> Reply | Failure:
        first, gate = self._attempt + 1, self._gate
        if member is not self._member:
            gate = ApprovalGate.of(self._scope, member, with_attempt(self._key, first), stands_in=gate)
        ask = Ask(
            self._scope,
            member,
            self._turn,
            self._key,
            self._new_context,
            member.policy,
            first,
            gate,
            is_cut_back=True,
        )
        ending = await ask.resolve_with_less()
        self._attempt = ask.attempt
        return ending

    async def _ask_with_summary(self, failure: Failure) -> Reply | Failure:
        """Ask again with summaries in place of the conversation, except its last message."""
        *before, last = self._turn.history or (None,)
        if not before and (last is None or len(last.content) <= CHUNK):
            return failure
        kept = [last] if last is not None and len(last.content) <= CHUNK else []
        earlier = self._turn.history[: len(self._turn.history) - len(kept)]
        parts = list(split_transcript(earlier))
        summaries: list[str] = []
        for number, part in enumerate(parts, start=1):
            turn = summary_turn(part, self._turn.number)
            key = self._scope.claim(f"summary-{number}/{self._key}")
            reply = await Ask(self._scope, self._member, turn, key, self._new_context, self._policy).resolve_with_less()
            if isinstance(reply, Failure):
                return failure
            summaries.append(reply.text)
        self._turn = with_summary(self._turn, len(kept), summary_message(summaries))
        self._record(failure, "summarised", self._member.name)
        return await self._ask_again(self._member)

    async def _ask_person(self, failure: Failure) -> str:
        """Ask a person how to continue after the failure of a critical member; the run pauses meanwhile."""
        self._questions_asked += 1
        self._record(failure, "asked_person")
        question = Question(
            text=f"{self._member.name!r} failed ({failure.error}: {failure.message}), and the team can't do without it."
            " Try it again, go on without it, or give up?",
            choices=("retry", "skip", ABORT),
            reason="failure",
        )
        place = self._scope.claim(f"{self._key}/failure-{self._questions_asked}")
        answer = await ask_person_at(self._scope, place, question)
        return answer.text

    def _record(self, failure: Failure, how: str, to: str = "") -> None:
        fact = AgentRecovered(member=self._member.name, error=failure.error, how=how, to=to)  # pyright: ignore[reportArgumentType]
        emit_fact(self._scope, fact)


def _with_warning(failure: Failure, other: str, ending: Reply | Failure) -> Reply | Failure:
    """Return how a fallback ended; where it stands in for a member whose settings are wrong, with a warning."""
    if failure.error != InvalidRequest.kind:
        return ending
    substitute = "its fallback model" if other == failure.asked else repr(other)
    then = "answered in its place" if isinstance(ending, Reply) else "failed too"
    text = f"{failure.member!r} failed ({failure.error}: {failure.message}), and {substitute} {then}"
    return ending.changed(warnings=(*ending.warnings, text))


async def abort_run(scope: Scope, failure: Failure) -> NoReturn:
    """End the run with this failure, because a person chose to abort; no failure policy applies."""
    run = scope.run
    if run.aborted is None:
        path = SEPARATOR.join((*scope.enclosing_members(), failure.member))
        text = f"{key_below_root(path)!r} failed: {failure.message} (a person chose to abort)"
        run.aborted = RunAborted(member=path, error=failure.error, message=text)
        run.recorder.add("", "", run.aborted)
    run.cancel()
    run.delivery.park(scope.lane)
    try:
        await run.park_until_cancelled()
    finally:
        run.delivery.unpark(scope.lane)
