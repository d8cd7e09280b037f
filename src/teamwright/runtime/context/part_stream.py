"""One part of a response while it is streamed: its pieces are redacted and published to the followers of the run.

Followers that come later get all of it so far, from the bus, until the part is finished or discarded.
"""

from __future__ import annotations

from teamwright.agents.contract.effect import ReplyPart
from teamwright.runtime.driver.redaction import RedactedStream
from teamwright.runtime.scope import Scope
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, ThinkingDelta


class PartStream:
    """Publishes the pieces of one part, each with its offset; what may be the beginning of a secret is held back."""

    __slots__ = ("_attempt", "_offset", "_part", "_redacted", "_scope", "_shown")

    def __init__(self, scope: Scope, attempt: int, part: ReplyPart) -> None:
        self._scope, self._attempt, self._part = scope, attempt, part
        self._redacted, self._offset = RedactedStream(scope.run.redactor), 0
        self._shown: list[str] = []
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
        return self._delta(self._shown[0], 0) if self._shown else None

    def _publish(self, text: str) -> None:
        if not text:
            return
        self._shown.append(text)
        bus = self._scope.run.bus
        if bus.is_followed(self._scope.run.run_id):
            bus.publish_delta(self._delta(text, self._offset))

    def _delta(self, text: str, offset: int) -> AnyDelta:
        scope, part = self._scope, self._part
        if part.kind == "arguments":
            return ArgumentsDelta(
                run_id=scope.run.run_id,
                key=scope.path,
                member=scope.member,
                attempt=self._attempt,
                offset=offset,
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
            offset=offset,
            text=text,
            output=part.output,
        )
