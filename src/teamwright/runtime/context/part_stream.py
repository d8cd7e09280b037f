"""One part of a response while it is streamed: its pieces are redacted and published to the followers of the run."""

from __future__ import annotations

from teamwright.agents.contract.effect import ReplyPart
from teamwright.runtime.driver.redaction import RedactedStream
from teamwright.runtime.scope import Scope
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, ThinkingDelta


class PartStream:
    """Publishes the pieces of one part, each with its offset; what may be the beginning of a secret is held back."""

    __slots__ = ("_attempt", "_offset", "_part", "_redacted", "_scope")

    def __init__(self, scope: Scope, attempt: int, part: ReplyPart) -> None:
        self._scope, self._attempt, self._part = scope, attempt, part
        self._redacted, self._offset = RedactedStream(scope.run.redactor), 0

    def feed(self, piece: str) -> None:
        """Publish the next piece."""
        text, length = self._redacted.feed(piece)
        self._publish(text)
        self._offset += length

    def finish(self) -> None:
        """Publish what was held back."""
        self._publish(self._redacted.finish())

    def _publish(self, text: str) -> None:
        bus = self._scope.run.bus
        if text and bus.is_followed(self._scope.run.run_id):
            bus.publish_delta(self._delta(text))

    def _delta(self, text: str) -> AnyDelta:
        scope, part = self._scope, self._part
        if part.kind == "arguments":
            return ArgumentsDelta(
                run_id=scope.run.run_id,
                key=scope.path,
                member=scope.member,
                attempt=self._attempt,
                offset=self._offset,
                text=text,
                output=part.output,
                tool=part.tool,
                call=part.call,
            )
        return (Delta if part.kind == "text" else ThinkingDelta)(
            run_id=scope.run.run_id,
            key=scope.path,
            member=scope.member,
            attempt=self._attempt,
            offset=self._offset,
            text=text,
            output=part.output,
        )
