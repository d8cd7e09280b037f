"""The conformance suite for tool sources: subclass `ToolSourceConformance`, override `make` and `calls`.

class TestMySource(ToolSourceConformance):
    calls = (("roll", {"sides": 6}),)

    def make(self) -> ToolSource:
        return MySource()

`check_tool_source` runs the same checks in one call. Each failure names the mistake and the fix. The suite makes each
of the calls several times.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio
from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.agents.json_schema import schema_fault
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.agents.tools.registry import make_source
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import InvalidName, ToolError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.testing.trial import BodyJournal, TrialLog, run_checks
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.names import check_name
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Turn

RUN_ID, TASK = "source-on-trial", "Use the tools."
SECONDS = 30.0

Calls = Sequence[tuple[str, Arguments]]
MemberWork = Callable[[Context], Awaitable[JsonValue]]


@dataclass
class Member(Agent):
    """A member that calls `work` with its context, and replies with the result."""

    work: MemberWork
    name: str = "member"
    kind: str = "function"
    failures: list[Exception] = field(default_factory=list[Exception])

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Call `work`; store its exception, since a run records only the text."""
        try:
            result = await self.work(ctx)
        except Exception as error:
            self.failures.append(error)
            raise
        return Reply(messages=(Message(name=self.name, content=json.dumps(result)),), data=result)


@dataclass(frozen=True)
class SourceTrial:
    """How to create the tool source under test, and valid calls of its tools."""

    make: Callable[[], ToolSource]
    calls: Calls = ()

    async def run(self, work: MemberWork, journal: MemoryJournal | None = None, *, resume: bool = False) -> JsonValue:
        """Call `work` as the member of a new or resumed run; raises what it raises."""
        member = Member(work)
        async with Engine(journal or MemoryJournal()) as engine:
            with anyio.move_on_after(SECONDS):
                running = engine.resume(RUN_ID, team=member) if resume else engine.run(member, TASK, run_id=RUN_ID)
                result = await running
                if member.failures:
                    raise member.failures[-1]
                return result.data
        raise AssertionError(f"The turn did not end within {SECONDS:g} seconds.")

    def context(self, number: int = 1) -> ToolContext:
        """Return the context of a call that is not recorded."""
        return ToolContext(digest(RUN_ID, str(number)), f"tool-{number}")


Check = Callable[[SourceTrial], Awaitable[None]]


async def check_declaration(trial: SourceTrial) -> None:
    """Check that it has a name and no problems, and that its declaration rebuilds it."""
    source = trial.make()
    assert isinstance(source, ToolSource), "It is not a ToolSource: subclass it, or define all of its attributes."
    try:
        check_name("tool source", source.name)
    except (InvalidName, TypeError) as error:
        raise AssertionError(f"`name` must be a name: {error}") from error
    found = source.problems()
    assert not found, f"problems() says that its tools can't be called: {'; '.join(found)}"
    if source.spec is not None:
        again = make_source(source.spec, (), MAX_BYTES)
        same = (again.kind, again.tool_names) == (source.kind, source.tool_names)
        assert same, f"`spec` must be a declaration of this source, and it builds {again.kind!r}."


async def check_definitions(trial: SourceTrial) -> None:
    """Check that each tool has a unique name, a description, and an object as its arguments."""

    async def work(ctx: Context) -> JsonValue:
        source = trial.make()
        async with source.open(ctx) as opened:
            _check_definitions(await opened.definitions(ctx), source)
            assert (opened.name, opened.kind) == (source.name, source.kind), "open() must keep `name` and `kind`."
            return None

    await trial.run(work)


def _check_definitions(found: Sequence[ToolDefinition], source: ToolSource) -> None:
    assert found, "definitions() is empty, so a model is offered no tools."
    names = [one.name for one in found]
    assert len(set(names)) == len(names), f"Two tools have the same name: {names}."
    known = source.tool_names
    assert known is None or sorted(known) == sorted(names), (
        f"`tool_names` is {list(known or ())}, and definitions() has {names}; leave it None if names are known only"
        " during a turn."
    )
    for one in found:
        assert one.description.strip(), f"The tool {one.name!r} has no description, so a model can't know what it does."
        parameters = cast("object", one.parameters)
        is_object = isinstance(parameters, dict) and one.parameters.get("type") == "object"
        assert is_object, f"The parameters of {one.name!r} must be a JSON Schema of the type 'object'."
        fault = schema_fault(one.parameters)
        assert fault is None, f"The parameters of {one.name!r} are not a JSON Schema: {fault and fault.text}"


async def check_calls(trial: SourceTrial) -> None:
    """Check that a call returns JSON, and that missing arguments are refused."""

    async def work(ctx: Context) -> JsonValue:
        async with trial.make().open(ctx) as opened:
            for number, (name, arguments) in enumerate(trial.calls, start=1):
                opened.validate(name, arguments)
                before = json.dumps(dict(arguments))
                value = await opened.call(name, arguments, trial.context(number))
                assert _is_json(value), f"The tool {name!r} returns {value!r}, which is not JSON."
                assert json.dumps(dict(arguments)) == before, f"The tool {name!r} changes its arguments."
            for definition in await opened.definitions(ctx) if opened.signal is None else ():
                await _check_refusal(opened, definition, trial)
            return None

    await trial.run(work)


async def _check_refusal(opened: ToolSource, definition: ToolDefinition, trial: SourceTrial) -> None:
    if not definition.parameters.get("required"):
        return
    try:
        opened.validate(definition.name, {})
        await opened.call(definition.name, {}, trial.context())
    except ToolError:
        return
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(
            f"Without its arguments the tool {definition.name!r} raises {kind}: raise ToolError in validate(), with a"
            " message from which a model can correct the call."
        ) from error
    raise AssertionError(f"The tool {definition.name!r} accepts a call without its required arguments.")


def _is_json(value: object) -> bool:
    try:
        return json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError):
        return False


async def check_replay(trial: SourceTrial) -> None:
    """Truncate the record after each event and resume: the turn has the same tools and the same number of results."""

    async def work(ctx: Context) -> JsonValue:
        source = trial.make()
        async with Toolbox([source], owner="member").open(ctx) as tools:
            listed: list[JsonValue] = [[one.name, one.description, one.parameters] for one in tools.definitions]
            calls = enumerate(trial.calls, start=1)
            results = [
                await tools.call_recorded(name, arguments, key=f"tool-{number}") for number, (name, arguments) in calls
            ]
            return {"definitions": listed, "results": len(results)}

    journal = BodyJournal()
    expected = await trial.run(work, journal)
    log = TrialLog(await journal.read(RUN_ID), journal.written_bodies)
    for number in range(1, len(log.events)):
        last = log.events[number - 1]
        found = await trial.run(work, log.truncated(number), resume=True)
        assert found == expected, (
            f"Cut after event {number} ({last.kind} at {last.key!r}) and resumed, a turn is offered other tools:"
            f"\n  {found}\nAn uninterrupted run had\n  {expected}\nFetch what is not known beforehand with ctx.effect."
        )


async def check_turns_at_once(trial: SourceTrial) -> None:
    """Check that two turns can have the source open at once, and neither closes it for the other."""
    source, open_now, both = trial.make(), list[int](), anyio.Event()

    async def work(ctx: Context) -> JsonValue:
        async with source.open(ctx) as opened:
            await opened.definitions(ctx)
            open_now.append(first := 1 + len(open_now) * len(trial.calls))
            if len(open_now) == 2:
                both.set()
            await both.wait()
            for number, (name, arguments) in enumerate(trial.calls, start=first):
                await opened.call(name, arguments, trial.context(number))
            return None

    try:
        await asyncio.gather(trial.run(work), trial.run(work))
    except Exception as error:
        raise AssertionError(
            f"With two turns at once it fails: {type(error).__name__}: {error}. Keep the state of a turn in the object"
            " that open() returns, not in the source."
        ) from error


async def check_cleanup(trial: SourceTrial) -> None:
    """Check that `open` propagates an error of the turn unchanged, and that the run leaves no task behind."""

    async def work(ctx: Context) -> JsonValue:
        raised, found = ToolError("a trial"), None
        try:
            async with trial.make().open(ctx) as opened:
                await opened.definitions(ctx)
                raise raised
        except Exception as error:  # noqa: BLE001 - checked below
            found = error
        assert found is not None, "open() swallows the error of a turn: propagate it."
        assert found is raised, f"open() wraps the error of a turn in {type(found).__name__}: propagate it unchanged."
        return None

    before = asyncio.all_tasks()
    await trial.run(work)
    leaked = asyncio.all_tasks() - before
    assert not leaked, f"open() leaves tasks behind: {sorted(task.get_name() for task in leaked)}."


async def check_cancellation(trial: SourceTrial) -> None:
    """Check that a cancelled call does not return normally."""

    async def work(ctx: Context) -> JsonValue:
        async with trial.make().open(ctx) as opened:
            for name, arguments in trial.calls:
                call = asyncio.ensure_future(opened.call(name, arguments, trial.context()))
                await asyncio.sleep(0)
                if call.cancel():  # else it has already returned
                    await asyncio.wait([call])
                    swallowed = not call.cancelled() and call.exception() is None
                    assert not swallowed, f"The tool {name!r} swallows cancellation: propagate CancelledError."
            return None

    await trial.run(work)


CHECKS: tuple[Check, ...] = (
    check_declaration,
    check_definitions,
    check_calls,
    check_replay,
    check_turns_at_once,
    check_cleanup,
    check_cancellation,
)


def check_tool_source(make: Callable[[], ToolSource], calls: Calls = ()) -> None:
    """Run all checks on a tool source; raises one `AssertionError` that lists every mistake."""
    trial = SourceTrial(make, calls)
    run_checks(CHECKS, trial)


class ToolSourceConformance:
    """The tests of a tool source. `calls` are valid calls of its tools, by name and arguments."""

    calls: Calls = ()

    def make(self) -> ToolSource:
        """Return a new source, as an agent would have it."""
        raise NotImplementedError

    def check(self, check: Check) -> None:
        """Run one check."""
        anyio.run(check, SourceTrial(self.make, self.calls))

    def test_it_has_a_name_and_can_be_made_again(self) -> None:
        self.check(check_declaration)

    def test_a_model_can_understand_its_tools(self) -> None:
        self.check(check_definitions)

    def test_a_call_returns_json_and_wrong_arguments_are_refused(self) -> None:
        self.check(check_calls)

    def test_it_offers_the_same_from_every_point_of_a_record(self) -> None:
        self.check(check_replay)

    def test_two_turns_may_use_it_at_once(self) -> None:
        self.check(check_turns_at_once)

    def test_it_lets_errors_through_and_leaves_nothing_behind(self) -> None:
        self.check(check_cleanup)

    def test_cancellation_is_honoured(self) -> None:
        self.check(check_cancellation)
