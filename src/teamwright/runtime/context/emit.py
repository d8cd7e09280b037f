"""What a turn shows while it runs: facts that agents and strategies emit, and responses as they are streamed.

Facts are recorded once, redacted. Pieces of a response are redacted and published to the followers of the run; who
follows later gets all of it so far from the bus, until it is finished or discarded. Nothing flows back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.contract.effect import ReplyPart
from teamwright.errors import UsageError
from teamwright.runtime.driver.redaction import RedactedStream
from teamwright.runtime.scope import Scope
from teamwright.values.events.agent import AgentCallRejected, AgentCompacted
from teamwright.values.events.event import ENGINE_FACTS, AnyDelta, ArgumentsDelta, Delta, Fact, ThinkingDelta
from teamwright.values.events.run import Custom
from teamwright.values.events.team import TeamEnded
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.text.written_steps import WrittenSteps
from teamwright.values.value import Record, misfit_of


def emit_fact(scope: Scope, fact: Fact, key: str | None = None) -> None:
    """Record a fact of a scope unless the record holds it already; raises `UsageError` for the engine's own kinds.

    Facts without a key are counted.
    """
    if not isinstance(fact, Record):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        raise UsageError(f"Only events can be emitted, not {fact!r:.200}; emit a Custom.")
    if fact.__class__ in ENGINE_FACTS:
        raise UsageError(f"Only the engine records {fact.kind!r}; for something of your own, emit a Custom.")
    if scope.is_closed:
        return
    run = scope.run
    if fact.__class__ is TeamEnded:
        scope.has_ended = True
    if key is None:
        scope.emitted_count += 1
        place = f"event-{scope.emitted_count}"
    else:
        place = scope.claim(key)
    if (fact.kind, scope.path, place) not in run.record.emitted:
        if isinstance(fact, Custom):
            fact = fact.changed(data=_json(run.redactor.value(fact.data)))
            if (wrong := misfit_of(fact)) is not None:
                raise UsageError(f"An event of your own can't be recorded: {wrong}")
        else:
            fact = run.redactor.fact(fact)
        if isinstance(fact, AgentCallRejected):  # emitted with the text that becomes its body
            fact = fact.changed(arguments=run.recorder.store(fact.arguments))
        elif isinstance(fact, AgentCompacted):
            fact = fact.changed(summary=run.recorder.store(fact.summary))
        run.recorder.add(scope.path, place, fact)


def end_team(scope: Scope, fact: TeamEnded) -> None:
    """Record the ending of a team that is stopped from outside, unless it has begun nothing or has ended."""
    if not scope.emitted_count or scope.has_ended or scope.run.closing:
        return
    place = f"event-{scope.emitted_count + 1}"
    if (fact.kind, scope.path, place) not in scope.run.record.emitted:
        scope.run.recorder.add(scope.path, place, fact)


def _json(data: JsonValue) -> JsonValue:
    """Return the data as it will be read back from the journal."""
    try:
        return from_json(to_json(data, inf_nan_mode="null"))
    except ValueError as error:
        raise UsageError(f"The data of an event must be JSON: {error}") from error


class PartStream:
    """Publishes the pieces of one part, each with its offset; what may be the beginning of a secret is held back."""

    __slots__ = ("_attempt", "_offset", "_part", "_redacted", "_scope", "_shown", "_steps")

    def __init__(self, scope: Scope, attempt: int, part: ReplyPart) -> None:
        self._scope, self._attempt, self._part = scope, attempt, part
        self._redacted, self._offset = RedactedStream(scope.run.redactor), 0
        self._shown: list[str] = []
        writes = part.kind == "text" or part.output is not None
        self._steps = WrittenSteps() if scope.plans and writes else None
        scope.run.bus.open_part(scope.run.run_id, self)

    def feed(self, piece: str) -> None:
        """Publish the next piece."""
        text, length = self._redacted.feed(piece)
        self._publish(text)
        self._offset += length

    def finish(self) -> None:
        """Publish what was held back, and end the part."""
        self._publish(self._redacted.finish())
        self.discard()

    def discard(self) -> None:
        """End the part: the call has failed, or its response is recorded."""
        self._scope.run.bus.close_part(self._scope.run.run_id, self)

    def written(self) -> AnyDelta | None:
        """Return all of the part so far as one piece."""
        if len(self._shown) > 1:
            self._shown = ["".join(self._shown)]
        return self._delta(self._shown[0], 0, self._steps.lines if self._steps else ()) if self._shown else None

    def _publish(self, text: str) -> None:
        if not text:
            return
        self._shown.append(text)
        steps = self._steps.feed(text) if self._steps else ()
        bus = self._scope.run.bus
        if bus.is_followed(self._scope.run.run_id):
            bus.publish_delta(self._delta(text, self._offset, steps))

    def _delta(self, text: str, offset: int, steps: Sequence[str]) -> AnyDelta:
        scope, part = self._scope, self._part
        lines = tuple(map(mask_text, steps)) if steps else ()
        if part.kind == "arguments":
            return ArgumentsDelta(
                run_id=scope.run.run_id,
                key=scope.path,
                member=scope.member,
                attempt=self._attempt,
                offset=offset,
                text=text,
                output=part.output,
                steps=lines,
                tool=part.tool,
                call=part.call,
            )
        return (Delta if part.kind == "text" else ThinkingDelta)(
            run_id=scope.run.run_id,
            key=scope.path,
            member=scope.member,
            attempt=self._attempt,
            offset=offset,
            text=text,
            output=part.output,
            steps=lines,
        )
