"""One effect: returned from the record, or admitted, announced, called, retried and recorded.

Its response is shown while it is streamed: pieces are redacted and published to the followers of the run, and who
follows later gets all of it so far from the bus, until it is finished or discarded. Nothing flows back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from teamwright.agents.effect import (
    REPLY,
    Attempt,
    Effect,
    ReplyPart,
    Returned,
)
from teamwright.errors import AgentError, AgentTimeout, CallInDoubt, LimitReached, MissingDependency, RunError
from teamwright.history.recorded_asks import RecordedCall, recorded_result
from teamwright.runtime.budget.admission import UNBOUNDED, Admission, Permit
from teamwright.runtime.context.effect_charges import EffectRecord, InDoubtCall
from teamwright.runtime.context.size_caps import within_cap
from teamwright.runtime.context.workspace import include_writes
from teamwright.runtime.ordered_delivery import waiting_for_provider
from teamwright.runtime.recorder import remaining_wait
from teamwright.runtime.redaction import RedactedStream
from teamwright.runtime.run_state import ReplayObserver
from teamwright.runtime.scope import Scope
from teamwright.runtime.tasks import ContainedTask
from teamwright.values.events.agent import (
    AgentAbandoned,
)
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, Fact, ThinkingDelta
from teamwright.values.limits import Limits, tighter
from teamwright.values.run_keys import join_key
from teamwright.values.text.display import error_text
from teamwright.values.text.secrets import mask_text
from teamwright.values.typed_data import WrittenSteps
from teamwright.values.usage_and_prices import CALLS, TOKENS, USD, dollars

PATIENCE, GLANCE = 10.0, 0.02
"""Seconds that a new call waits for recorded ones, and between two looks at whether these have come."""


class EffectCall:
    """All attempts of one effect."""

    __slots__ = ("_effect", "_emitted", "_key", "_record", "_scope", "_streams")

    def __init__(self, scope: Scope, place: str, effect: Effect) -> None:
        self._scope, self._effect, self._key = scope, effect, join_key(scope.path, place)
        self._record = EffectRecord(scope, place, self._key, effect)
        self._emitted = 0
        self._streams: dict[ReplyPart, PartStream] = {}

    async def resolve(self) -> Returned:
        """Return the recorded result, or make the call, with retries, and record it."""
        scope, run, record = self._scope, self._scope.run, self._record
        recorded = self._find_recorded() if run.record.number else None
        if recorded is not None and recorded.outcome is not None:
            return self._replay(recorded)
        if run.record.number and run.delivery.is_replaying:
            await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
        in_doubt, lost = False, False
        if recorded is not None:
            scope.spend(recorded.usage)
            record.number, record.failures, in_doubt = recorded.attempts, recorded.failures, recorded.in_doubt
            record.outlasted = recorded.outlasted
            await self._wait_for_retry(recorded)
        while True:
            record.number, self._streams = record.number + 1, {}
            record.prompt, record.permit = None, UNBOUNDED
            if self._effect.model or scope.account or run.pausing or run.record.closed_models:
                held = recorded.reserved if recorded is not None and in_doubt and self.goes_on else None
                admission = Admission(scope, record.place, self._effect, record.model, held)
                record.permit, record.prompt = await admission.acquire(), admission.prompt
            run.open_calls[self._key], permit = self, record.permit
            try:
                return await self._attempt(permit, in_doubt=in_doubt)
            except AgentError as error:
                if isinstance(error, CallInDoubt) and not lost and not run.closing:
                    in_doubt = lost = True
                    record.charge_in_full()
                    continue
                wait = record.failed(error)
                if wait is None:
                    raise record.as_recorded(error) from None
            finally:
                if self._streams:
                    self._discard_streams()
                if permit.slot is not None:
                    permit.slot.close()
                run.open_calls.pop(self._key, None)
                if (
                    run.pausing or run.questions or run.provider_waits
                ):  # after the turn that this call may end has been recorded
                    asyncio.get_running_loop().call_soon(run.call_returned)
            in_doubt = False
            with waiting_for_provider(scope.lane):
                await anyio.sleep(wait)

    async def _wait_for_retry(self, recorded: RecordedCall) -> None:
        """Wait for what is left until the next attempt that was recorded, if there is one."""
        if recorded.retry_at is not None:
            with waiting_for_provider(self._scope.lane):
                await anyio.sleep(remaining_wait(recorded.retry_at, self._scope.run.wall(), recorded.retry_in))

    async def resolve_by_content(self) -> Returned:
        """Resolve an effect that has no place of its own in the order of its turn.

        A new one in place of a recorded one waits for that for a while: it may come from another task of the turn.
        """
        run, waited = self._scope.run, 0.0
        if self._key not in run.record.calls:
            while (left := run.record.call_left_out(self._scope.path, self._scope.is_claimed)) and waited < PATIENCE:
                await anyio.sleep(GLANCE)
                waited += GLANCE
            if left:
                run.report_mismatch(left, f"that {left!r} came next", f"makes {self._key!r} ({self._effect.name})")
        return await (self.resolve() if run.observer is None else self.resolve_observed(run.observer))

    async def resolve_observed(self, observer: ReplayObserver) -> Returned:
        """Resolve the effect after a observer has looked at it."""
        recorded = self._find_recorded()
        is_recorded = recorded is not None and recorded.outcome is not None
        await observer.call(self._key, self._effect, is_recorded=is_recorded)
        return await self.resolve()

    async def resolve_run(self, cancel: Callable[[Attempt], None]) -> Returned:
        """Resolve an effect that starts a run; where a recorded decision stops it, the run is cancelled.

        A driver that has made no attempt of its own charges that of an earlier one, in full.
        """
        scope, run = self._scope, self._scope.run
        try:
            return await self.resolve()
        except asyncio.CancelledError:
            if scope.is_being_stopped and not run.closing:
                recorded = run.record.calls.get(self._key)
                if recorded is not None and not scope.charges.calls:
                    self._record.count(recorded.reserved, calls=max(1, recorded.reserved.calls))
                cancel(self._new_attempt(None))
            raise

    @property
    def goes_on(self) -> bool:
        """Whether what the call does goes on without it: it has started a run."""
        return self._effect.cancel_run is not None

    @property
    def holder(self) -> str:
        return self._scope.member if self._record.permit.reservation is not None else ""

    def abandon(self) -> None:
        """Charge the call in full, because the member does not end and its cost is unknown."""
        self._record.charge_in_full()
        self._discard_streams()
        if (slot := self._record.permit.slot) is not None:
            slot.close()

    def _find_recorded(self) -> RecordedCall | None:
        """Return the record of this effect; on a fork, an effect with a different request starts over."""
        scope, run, request = self._scope, self._scope.run, self._effect.request
        recorded = run.record.calls.get(self._key)
        if recorded is None and scope.call_announced and run.record.inherited < scope.first_event <= run.record.number:
            recorded = RecordedCall(request, attempts=1, in_doubt=True)
        if recorded is not None and recorded.request and recorded.request != request:
            run.report_mismatch(
                self._key,
                f"that {self._key!r} sent {recorded.request[:8]}",
                f"sends {request[:8]} ({self._effect.name})",
            )
            recorded = RecordedCall(request, attempts=recorded.attempts)
        return recorded

    def _replay(self, recorded: RecordedCall) -> Returned:
        record = self._scope.run.record
        if record.workspace.writes:
            include_writes(self._scope, self._key)
        self._scope.spend(recorded.usage)
        returned = recorded_result(recorded, record.bodies)
        self._scope.spend(returned.usage)
        return returned

    async def _attempt(self, permit: Permit, *, in_doubt: bool) -> Returned:
        """Announce the call, make it, and record its result and cost in one batch."""
        scope, run, record = self._scope, self._scope.run, self._record
        max_output = permit.reservation.max_output if permit.reservation else self._effect.max_output
        announced = scope.call_announced and record.number == 1
        if not announced:
            record.announce(max_output, in_doubt=in_doubt)
        try:
            if (wait := run.recorder.pending_commit(at_once=run.delivery.open_lanes == 1)) is not None:
                await wait
        except asyncio.CancelledError:
            permit.cancel()
            raise
        try:
            cut = permit.reservation is not None and permit.reservation.cut
            returned = await self._send(max_output, cut=cut, in_doubt=in_doubt)
        except asyncio.CancelledError:
            if self._is_in_flight:
                record.charge_in_full()
            raise
        except AgentError:
            if not self._is_in_flight:
                await run.park_until_cancelled()
            raise
        if self._streams:
            for stream in self._streams.values():
                stream.finish()
        eased = permit.slot.returned(returned.usage) if permit.slot is not None else None
        if (run.closing or run.abandoned) and scope.is_closed:
            await run.park_until_cancelled()
        recorded = record.returned(returned, announced=announced)
        if eased is not None:
            record.rate_changed(eased)
        return recorded

    @property
    def _is_in_flight(self) -> bool:
        """Whether this call was not abandoned."""
        return self._scope.run.open_calls.get(self._key) is self

    def _new_attempt(self, max_output: int | None, *, cut: bool = False) -> Attempt:
        return Attempt(
            run_id=self._scope.run.run_id,
            number=self._record.number,
            key=self._key,
            max_output=max_output,
            used=self._mark_count,
            delta=partial(self._stream, self._record.number),
            cut=cut,
            is_followed=self._scope.run.bus.is_followed(self._scope.run.run_id),
            emit=self._emit,
            limits=None if self._effect.cancel_run is None else self._run_limits(),
        )

    def _run_limits(self) -> Limits | None:
        """The limits of a run that the call starts: what is reserved for it, and how each request is bounded."""
        run = self._scope.run
        return run.ask_limits.left(self._key, run.reached_asks, self._spend_limits())

    def _spend_limits(self) -> Limits | None:
        account, reserved = self._scope.account, self._record.permit.cost
        if account is None:
            return None
        bounded = {index for level in account.chain() for index, _ in level.bounds}
        return Limits(
            tokens=reserved.tokens if TOKENS in bounded else None,
            usd=dollars(reserved.usd) if USD in bounded else None,
            calls=reserved.calls if CALLS in bounded else None,
            message=account.message,
            strict=account.strict,
        )

    async def _send(self, max_output: int | None, *, cut: bool, in_doubt: bool) -> Returned:
        effect, account, observer = self._effect, self._scope.account, self._scope.run.observer
        attempt = self._new_attempt(max_output, cut=cut)
        call = effect.call if observer is None else observer.call_of(self._key, effect)
        timeout = effect.timeout
        if account is not None and account.message is not None and effect.kind == "model":
            timeout = tighter(timeout, account.message.seconds)
        if timeout is None:
            timeout = effect.default_timeout
        if effect.in_doubt is not None and call is effect.call:
            call = InDoubtCall(self._scope, effect, in_doubt=in_doubt).make
        try:
            if timeout is None:
                return within_cap(await call(attempt), effect)
            return within_cap(await self._call_with_timeout(call, attempt, timeout), effect)
        except MissingDependency as error:  # no member can help it: the run waits for an engine that has it
            self._scope.run.abort(error)
            raise
        except (AgentError, LimitReached, RunError, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if self._scope.is_cancelled_from_outside():
                raise
            raise AgentError(f"{effect.name!r} was cancelled from inside") from error
        except TimeoutError as error:
            waited = "in time" if timeout is None else f"within {timeout:g} s"
            raise AgentTimeout(f"{effect.name!r} did not answer {waited}") from error
        except BaseException as error:  # any error of a call becomes a recorded failure
            if error is self._scope.run.error:
                raise
            raise AgentError(error_text(error)) from error

    async def _call_with_timeout(
        self, send: Callable[[Attempt], Awaitable[Returned]], attempt: Attempt, seconds: float
    ) -> Returned:
        """Return the result of the call or raise `TimeoutError`; a call that does not end even then is abandoned."""
        scope, effect = self._scope, self._effect

        def abandoned() -> None:
            if not scope.is_closed:
                fact = AgentAbandoned(name=effect.name, grace=scope.run.grace)
                scope.run.recorder.add(scope.path, self._record.place, fact)

        task = ContainedTask(partial(send, attempt), name=self._key, grace=scope.run.grace, abandoned=abandoned)
        timer = asyncio.get_running_loop().call_later(seconds, task.stop)
        try:
            await task.wait()
        finally:
            timer.cancel()
        if task.stopping and task.has_failed:
            raise TimeoutError
        return task.result()

    def _mark_count(self, mark: str) -> int:
        member = self._scope.member
        return self._scope.run.record.charges.marks[member, mark] + self._scope.run.marks[member, mark]

    def _emit(self, fact: Fact) -> None:
        """Record a fact of the call, redacted; nothing is recorded once the call has ended."""
        if self._is_in_flight and not self._scope.is_closed:
            self._emitted += 1
            place = f"{self._record.place}/event-{self._record.number}-{self._emitted}"
            run = self._scope.run
            run.recorder.add(self._scope.path, place, run.redactor.fact(fact))

    def _stream(self, attempt: int, piece: str, part: ReplyPart = REPLY) -> None:
        """Publish a piece of the reply, except for what may be the beginning of a secret."""
        if attempt != self._record.number or not self._is_in_flight:  # from an abandoned attempt
            return
        if (stream := self._streams.get(part)) is None:
            stream = self._streams[part] = PartStream(self._scope, attempt, part)
        stream.feed(piece)

    def _discard_streams(self) -> None:
        """Show nothing more of this attempt to followers that come later."""
        for stream in self._streams.values():
            stream.discard()


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
