"""A call of a team as a model, in whichever format of `/v1`: one request is one run, which its client waits for.

The libraries of clients repeat what times out or has a status of 409, 429 or 500 and above: the same request again
finds its run. A client that leaves ends the run, unless it is to go on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Header, Request

from teamwright.errors import UsageError
from teamwright.server.driven_runs import identity_of, run_id_of
from teamwright.server.error_responses import while_connected
from teamwright.server.event_feeds import STOPS, TooSlow
from teamwright.server.frames import Frame
from teamwright.server.guard import note_run
from teamwright.server.routes.runs import begin_run
from teamwright.server.state import ServerState, need
from teamwright.values.turns.messages import Message

if TYPE_CHECKING:
    from teamwright.runtime.run_request import RunRequest
    from teamwright.server.credentials import Role, Visitor
    from teamwright.values.turns.results import RunResult


@dataclass(frozen=True, slots=True)
class SentAgain:
    """What a request says of being sent again: its key, and whether its client has sent it before, if it counts."""

    key: str | None
    counted: bool | None

    @property
    def is_retry(self) -> bool | None:
        return self.key is not None or self.counted


def _sent_again(
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
    x_stainless_retry_count: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> SentAgain:
    return SentAgain(idempotency_key, None if x_stainless_retry_count is None else x_stainless_retry_count != "0")


Retry = Annotated[SentAgain, Depends(_sent_again)]


class ModelCall:
    """One request for an answer of a team, from its run to its answer."""

    def __init__(
        self, server: ServerState, request: Request, identity: str, retry: SentAgain, *, is_kept: bool, is_stream: bool
    ) -> None:
        self._server, self._request, self._is_stream = server, request, is_stream
        self._run = server.awaited.enter(identity, is_kept=is_kept, is_retry=retry.is_retry)
        self._is_answered = False

    @classmethod
    async def enter(
        cls, server: ServerState, request: Request, visitor: Visitor, retry: SentAgain, *, kept: bool, stream: bool
    ) -> ModelCall:
        """Let a client wait for the run of its request; `leave` lets it go."""
        identity = identity_of(visitor.name, retry.key, await request.body())
        return cls(server, request, identity, retry, is_kept=kept, is_stream=stream)

    @property
    def run_id(self) -> str:
        """The run, once it has started."""
        return self._run.run_id

    async def start(self, named: str | None, make: Callable[[str], Awaitable[RunRequest]]) -> None:
        """Start the run, unless an earlier request has: as `named`, where the request names a key."""
        async with self._run.starting:
            if not self._run.run_id:
                asked = await make(named or self._run.new_id)
                self._run.run_id = await begin_run(self._server, asked, need(self._request, "run"))
        note_run(self._request, self._run.run_id)

    def answered(self, *, is_kept: bool = False) -> None:
        """Note that the client gets its answer, so that the same request is another one; a kept run goes on."""
        self._is_answered = True
        self.keep(is_kept=is_kept)

    def keep(self, *, is_kept: bool = True) -> None:
        """Let the run go on without its client."""
        self._run.is_kept = self._run.is_kept or is_kept

    def leave(self) -> None:
        """Let the client go, with its answer or without; the run of a stream that was closed ends at once."""
        self._server.awaited.leave(self._run, answered=self._is_answered, after=0.0 if self._is_stream else None)

    async def result(self) -> RunResult:
        """Wait until the run has stopped; a client that leaves earlier gets nothing."""
        return await awaited_result(self._server, self._request, self._run.run_id, "run")

    def frames(self) -> AsyncGenerator[Sequence[Frame]]:
        """Yield what happens in the run until it stops."""
        return followed(self._server, self._request, self._run.run_id, "run")


def key_run(visitor: Visitor, retry: SentAgain, door: str = "v1") -> str | None:
    """Return the id of the run of a request that names a key."""
    return None if retry.key is None else run_id_of(visitor.name, retry.key, door)


async def awaited_result(server: ServerState, request: Request, run_id: str, role: Role) -> RunResult:
    """Wait until a run has stopped, while its client does; who has lost the role meanwhile gets nothing."""
    result = await while_connected(request, lambda: server.driven.wait(run_id))
    need(request, role)
    return result


async def followed(server: ServerState, request: Request, run_id: str, role: Role) -> AsyncGenerator[Sequence[Frame]]:
    """Yield the frames of a run from its first until it stops, and none of them in silence.

    Who is too slow misses the rest. Raises `NotKnown` or `NotAllowed` where the visitor has lost the role.
    """
    number, last, has_stopped = 0, None, False
    async with server.feeds.follow(run_id, form="events", check=partial(need, request, role)) as feed:
        try:
            while (frames := await feed.next()) is not None:
                yield frames
                number = max([number, *(frame.number for frame in frames if frame.number is not None)])
                has_stopped = has_stopped or any(frame.kind in STOPS for frame in frames)
                if has_stopped and (last is None or number > last):
                    last = await _last_number(server, run_id)
                if last is not None and number >= last:
                    return
        except TooSlow:
            return


async def _last_number(server: ServerState, run_id: str) -> int | None:
    """The last event of a run that has stopped, after which nothing comes; `None` if it goes on."""
    if server.driven.goes_on(await server.engine.runs.find(run_id)):
        return None
    return (await server.engine.runs.history(run_id)).number


def spoken(role: str, text: str, name: str | None) -> Message:
    """Return a message of an earlier conversation that a request repeats; instructions count as what the user says."""
    if role == "assistant":
        return Message(name=name or "assistant", content=text, role="assistant")
    return Message(name=name or "user", content=text, role="user")


def last_from_user(role: str, text: str) -> str:
    """Return the task of a run: the last message; raises `UsageError` if that is not the user's."""
    if role == "assistant":
        raise UsageError("The last message has to be the user's.")
    return text


DONE = "data: [DONE]\n\n"
"""What a stream has at its end."""
