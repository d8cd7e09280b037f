"""What exactly a turn received, rebuilt from the journal: the messages of every model request, tools and settings.

A record holds no copies of prompts. The run is replayed in memory up to the end of the turn, and nothing is called that
is not recorded. A rebuilt request is exact if its digest is the recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Self

import anyio
from pydantic import JsonValue

from teamwright.agents.functions.imports import code_not_loaded
from teamwright.errors import NonDeterminism, TeamwrightError, UnknownName
from teamwright.history.run_record import check_record
from teamwright.runtime.recorded.held_replay import HoldingObserver, held_replay, record_of, replay_of
from teamwright.runtime.recorded.reader import read_events
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentFailed, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.run_keys import is_inside
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.agents.effect import Effect, SentRequest
    from teamwright.history.run_record import RunRecord
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.turns.turn import Turn

SECONDS = 20.0
"""How long a replay may take."""
TEAM = "team"


class PromptMessage(Record, frozen=True, omit_defaults=False):
    """A message that the turn's member read; `tool` and `call` identify a tool call, or the result of one."""

    role: str
    content: JsonValue
    name: str = ""
    tool: str = ""
    call: str = ""


class PromptTool(Record, frozen=True, omit_defaults=False):
    """A tool that was offered."""

    name: str
    description: str
    parameters: JsonValue


class PromptRequest(Record, frozen=True, omit_defaults=False):
    """One request to a model. `is_exact` says that its digest is the recorded one."""

    key: str
    model: str
    is_exact: bool
    instructions: str
    messages: tuple[PromptMessage, ...]
    tools: tuple[PromptTool, ...] = ()
    settings: JsonValue = None
    output_schema: JsonValue = None
    output_modes: tuple[str, ...] = ()
    max_output: int | None = None


class TurnPrompt(Record, frozen=True, omit_defaults=False):
    """What a turn received: its task and the messages before it, and every request that its member made of a model.

    `problem` says why it is not all there, where that is so.
    """

    run_id: str
    key: str
    member: str
    member_kind: str
    purpose: str
    task: str
    history: tuple[PromptMessage, ...] = ()
    requests: tuple[PromptRequest, ...] = ()
    problem: str = ""


async def rebuild_prompt(engine: Engine, run_id: str, key: str) -> TurnPrompt:
    """Rebuild what the turn with a key received; raises `UnknownName` if the run has no such turn."""
    return await (await PromptReplay.load(engine, run_id)).prompt(key)


class PromptReplay:
    """The record of one run and its team, to be replayed for any of its turns."""

    def __init__(
        self, journal: Journal, events: Sequence[Event], team: Team, problem: str = "", *, has_code: bool = True
    ) -> None:
        self._journal, self._events, self._team, self._problem = journal, events, team, problem
        self._has_code = has_code

    @classmethod
    async def load(cls, engine: Engine, run_id: str) -> Self:
        """Read a run, and load its team: without its code where that is not here.

        Environment variables need not be set here; a request that contains one is not exact then.
        """
        from teamwright.runtime.recorded.reader import TeamSource, read_source
        from teamwright.teams.manifests.environment_variables import lenient_environment
        from teamwright.teams.team_loader import without_code

        events = await read_events(engine.journal, run_id)
        check_record(events)
        record, problem = await record_of(engine.journal, events), ""
        found = await read_source(engine.journal, record)
        environment = lenient_environment(found.source.manifest)
        load = partial(TeamSource.build, models=engine.models, recorded=True, environment=environment)
        try:
            team = await anyio.to_thread.run_sync(load, found)
        except TeamwrightError as error:
            problem = f"the team can't be loaded here, so its requests can't be rebuilt: {error}"
            team = await anyio.to_thread.run_sync(load, found.changed(without_code))
        has_code = not problem and await anyio.Path(found.source.module_folder).is_dir()
        return cls(engine.journal, events, team, problem, has_code=has_code)

    @property
    def keys(self) -> list[str]:
        """The keys of all turns, in the order in which they began."""
        return [event.key for event in self._events if isinstance(event.fact, AgentAsked)]

    async def prompt(self, key: str) -> TurnPrompt:
        """Rebuild what one turn received."""
        asked, past = _past_of(self._events, key)
        calls = {event.key: event.fact for event in past if event.scope == key and isinstance(event.fact, AgentCalled)}
        sent = {one: fact for one, fact in calls.items() if fact.effect == "model"}
        missing = self._problem if sent else ""
        sent = {} if missing else sent
        record = await record_of(self._journal, past, asked.task)
        observer = _PromptObserver(key, frozenset(sent))
        problem = await self._replay(record, observer) or missing
        turn = observer.seen
        if turn is None or len(observer.requests) < len(sent):
            problem = problem or "the replay did not reach all of the turn"
        return TurnPrompt(
            run_id=self._events[0].run_id,
            key=key,
            member=asked.member,
            member_kind=asked.member_kind,
            purpose=asked.purpose,
            task=mask_text(str(record.bodies.value(asked.task))),
            history=() if turn is None else _history(turn),
            requests=tuple(
                _request(one, sent[one], *observer.requests[one]) for one in sent if one in observer.requests
            ),
            problem=mask_text(problem),
        )

    async def _replay(self, record: RunRecord, observer: _PromptObserver) -> str:
        """Replay a record until the observer has seen all; returns what went wrong, or an empty text."""
        run = replay_of(record, self._team)
        with nullcontext() if self._has_code else code_not_loaded():  # checks are recorded, and need not be here
            async with held_replay(run, observer) as driving:
                try:
                    with anyio.fail_after(SECONDS):
                        await observer.reached.wait()
                except TimeoutError:
                    return f"the replay took more than {SECONDS:g} seconds"
        error = None if driving.cancelled() else driving.exception()
        return str(error) if isinstance(error, NonDeterminism) else ""


def _past_of(events: Sequence[Event], key: str) -> tuple[AgentAsked, Sequence[Event]]:
    """Return the ask with a key, and the events before its ending; an open ask has none."""
    asked: AgentAsked | None = None
    for index, event in enumerate(events):
        match event.fact:
            case AgentAsked() as fact if event.key == key:
                asked = fact
            case AgentReplied() | AgentFailed() if event.key == key and asked is not None:
                return asked, events[:index]
            case _:
                pass
    if asked is None:
        raise UnknownName("turn", key, [event.key for event in events if isinstance(event.fact, AgentAsked)])
    return asked, events


class _PromptObserver(HoldingObserver):
    """Lets a replay come as far as one turn, and keeps what the turn and its requests received."""

    def __init__(self, key: str, wanted: frozenset[str]) -> None:
        super().__init__()
        self._key, self._wanted = key, wanted
        self.seen: Turn | None = None
        self.requests: dict[str, tuple[str, SentRequest]] = {}

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Let teams work, and the members around the turn; all others are held."""
        if key == self._key:
            self.seen = turn
            if not self._wanted:
                await self.hold()
        elif member.kind != TEAM and not is_inside(self._key, key):
            await anyio.sleep_forever()

    async def call(self, key: str, effect: Effect, *, is_recorded: bool) -> None:
        """Keep what a request of the turn sends; a call that is not recorded is never made."""
        if key in self._wanted and effect.describe is not None:
            self.requests[key] = effect.request, effect.describe()
        if self._wanted <= self.requests.keys():
            await self.hold()
        if not is_recorded:
            await anyio.sleep_forever()


def _history(turn: Turn) -> tuple[PromptMessage, ...]:
    return tuple(PromptMessage(role=one.role, name=one.name, content=mask_text(one.content)) for one in turn.history)


def _request(key: str, called: AgentCalled, digest: str, sent: SentRequest) -> PromptRequest:
    return PromptRequest(
        key=key,
        model=called.name,
        is_exact=digest == called.request,
        instructions=mask_text(sent.instructions),
        messages=tuple(
            PromptMessage(role=one.role, content=mask_value(one.content), tool=one.tool, call=one.call)
            for one in sent.messages
        ),
        tools=tuple(
            PromptTool(name=one.name, description=mask_text(one.description), parameters=mask_value(one.parameters))
            for one in sent.tools
        ),
        settings=mask_value(sent.settings),
        output_schema=mask_value(sent.output_schema),
        output_modes=sent.modes,
        max_output=called.max_output,
    )
