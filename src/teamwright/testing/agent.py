"""What every agent must do, as tests: subclass `AgentConformance`, say how yours is made, let pytest collect it.

class TestMyAgent(AgentConformance):
    def make(self) -> AgentLike:
        return MyAgent("mine")

`check_agent` does the same in one call. Each check names what went wrong and what to do instead.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
from pydantic_core import PydanticSerializationError, to_json

from teamwright.agents.context import AgentLike
from teamwright.agents.contract import policy_of, require_agent, spec_of
from teamwright.errors import InvalidName, NonDeterminism, TeamwrightError
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.agent_trial import TROUBLE, Door, Witness
from teamwright.testing.strategy_trial import RUN_ID, KeptJournal, Log
from teamwright.values.manifest import AgentSpec, TeamSpec
from teamwright.values.names import check_name
from teamwright.values.results import RunResult
from teamwright.values.turns import Reply


@dataclass(frozen=True)
class AgentTrial:
    """How an agent on trial is made and asked. `make` must give a new one each time, with the same answers."""

    make: Callable[[], AgentLike]
    task: str = "Say something."
    seconds: float = 20.0

    async def run(self, door: Door | None = None) -> tuple[Witness, RunResult, Log]:
        """Ask the agent once; what it did is with the witness."""
        witness, journal = Witness(self.make(), door), KeptJournal()
        async with self.engine(journal) as engine:
            result = await engine.run(self.team(witness), self.task, run_id=RUN_ID)
        return witness, result, Log(await journal.read(RUN_ID), journal.kept)

    def team(self, agent: AgentLike) -> Team:
        """A team around the agent, so that a team can be on trial as a member too."""
        return Team("trial", members=[agent])

    @asynccontextmanager
    async def engine(self, journal: KeptJournal) -> AsyncGenerator[Engine]:
        """An engine; a turn that does not end has failed its trial."""
        with anyio.move_on_after(self.seconds) as time:
            async with Engine(journal) as engine:
                yield engine
        assert not time.cancelled_caught, f"The turn did not end within {self.seconds:g} seconds."


async def check_declaration(trial: AgentTrial) -> None:
    """It has a name and a kind, keeps the contract, and sets nothing in a way that is going away."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            agent = require_agent(trial.make())
        except DeprecationWarning as warning:
            raise AssertionError(str(warning)) from warning
    try:
        check_name("agent", agent.name)
    except InvalidName as error:
        raise AssertionError(f"The name can't be used in a team: {error}") from error
    kind = cast("object", agent.kind)
    assert isinstance(kind, str), f"`kind` must be a text that says what sort of agent it is, not {kind!r}."
    assert kind, "`kind` must say what sort of agent it is."
    assert trial.make() is not agent, "`make` must give a new agent each time, as a resume in a new process does."


async def check_reply(trial: AgentTrial) -> None:
    """It answers a turn with a `Reply`, under its own name."""
    witness, result, _ = await trial.run()
    assert witness.error is None, (
        f"`respond` raised {witness.error!r}; the trial needs a task that the agent answers: give it as `task`."
    )
    reply = witness.reply
    assert isinstance(reply, Reply), f"`respond` must return a Reply, not {reply!r}; see Reply.of(name, text)."
    assert result.failure is None, f"The reply could not be recorded: {result.failure.message}"
    if witness.kind != "team":
        others = {message.name for message in reply.messages} - {witness.name}
        assert not others, f"A reply carries the agent's own name, {witness.name!r}, and not {', '.join(others)}."


async def check_data(trial: AgentTrial) -> None:
    """What it says is data that a record can hold, and it says the same when it is read back."""
    witness, _, _ = await trial.run()
    reply = witness.reply
    if not isinstance(reply, Reply):
        return
    try:
        to_json([reply.data, reply.context_updates])
    except PydanticSerializationError as error:
        raise AssertionError(f"The reply holds {error}: `data` must be JSON, since records are data only.") from error


async def check_failure(trial: AgentTrial) -> None:
    """A call that fails is a failure of the agent: an `AgentError`, whose text is no answer."""
    witness, result, _ = await trial.run(Door("fails"))
    if not witness.door.used:
        return
    if witness.error is not None:
        failure = result.failure
        assert failure is None or failure.error != "crash", (
            f"When a call fails, `respond` raises {witness.error!r}; let the AgentError of the call pass, or raise one."
        )
        return
    text = witness.reply.text if isinstance(witness.reply, Reply) else ""
    assert TROUBLE not in text, "When a call fails, the agent tells the text of the error as its answer; raise it."


async def check_cancellation(trial: AgentTrial) -> None:
    """Cancelled while a call is out, it ends at once and leaves no task behind."""
    witness, _, _ = await trial.run(Door("hangs"))
    if not witness.door.used:
        return
    assert witness.ended, "Cancelled while a call is out, the agent goes on: let CancelledError pass."
    assert witness.cancelled, (
        "Cancelled while a call is out, the agent answers or fails in another way: it must not swallow cancellation."
    )
    assert not witness.left_behind, (
        f"Cancelled, the agent leaves tasks behind: {', '.join(witness.left_behind)}; every task needs a parent."
    )


async def check_tasks(trial: AgentTrial) -> None:
    """What it has started has ended when it answers."""
    witness, _, _ = await trial.run()
    assert not witness.left_behind, (
        f"The agent has answered, and these tasks still run: {', '.join(witness.left_behind)}; wait for them, or cancel"
        " them."
    )


async def check_replay(trial: AgentTrial) -> None:
    """Cut after each event and resumed, it asks for the same calls and repeats none that is recorded."""
    witness, expected, log = await trial.run()
    for number in range(1, len(log.events)):
        cut, again = log.events[number - 1], Witness(trial.make())
        where = f"Cut after event {number} ({cut.kind} at {cut.key!r}) and resumed, the agent"
        try:
            async with trial.engine(cast("Any", log.cut(number))) as engine:
                result = await engine.resume(RUN_ID, team=trial.team(again))
        except NonDeterminism as error:
            raise AssertionError(
                f"{where} does something else: the record says {error.recorded}, the agent now {error.replayed}. Keys"
                " of calls must come from the turn, never from chance, time or anything that outlives it."
            ) from error
        assert result.output == expected.output, (
            f"{where} answers {result.output!r}, where an uninterrupted run answered {expected.output!r}: whatever"
            " differs from run to run belongs into ctx.effect or ctx.clock."
        )
        recorded = witness.recorded_calls(log, number)
        assert len(recorded) + len(again.called) <= len(witness.called), (
            f"{where} makes calls again that are recorded: {', '.join(sorted(again.called))}. Their keys must come"
            " from the turn, never from chance, time or anything that outlives it."
        )


async def check_policy(trial: AgentTrial) -> None:
    """Its policy stays the same: an agent may not give itself other limits."""
    agent = trial.make()
    before = policy_of(agent)
    assert policy_of(agent) == before, "The policy is another one each time it is read; make it once."
    witness = Witness(agent)
    async with trial.engine(KeptJournal()) as engine:
        await engine.run(trial.team(witness), trial.task, run_id=RUN_ID)
    assert policy_of(agent) == before, "A turn changes the policy of the agent; limits that change do not bound it."


async def check_spec(trial: AgentTrial) -> None:
    """Where it has a `spec`, that is a declaration that can be written down and read back."""
    spec = cast("object", spec_of(trial.make()))
    if spec is None:
        return
    assert isinstance(spec, AgentSpec | TeamSpec), f"`spec` must be a declaration, or nothing, and not {spec!r}."
    written = spec.model_dump(mode="json", exclude_unset=True)
    assert type(spec).model_validate(written) == spec, "`spec` is another one when it was written down and read back."
    assert spec == spec_of(trial.make()), "`spec` differs from agent to agent, though they are made alike."


Check = Callable[[AgentTrial], Awaitable[None]]
CHECKS: tuple[Check, ...] = (
    check_declaration, check_reply, check_data, check_failure, check_cancellation, check_tasks, check_replay,
    check_policy, check_spec,
)  # fmt: skip


def check_agent(make: Callable[[], AgentLike], task: str = AgentTrial.task) -> None:
    """Put an agent on trial; raises one `AssertionError` that tells everything that is wrong with it."""
    trial, found = AgentTrial(make, task), list[str]()
    for check in CHECKS:
        try:
            anyio.run(check, trial)
        except (AssertionError, TeamwrightError) as error:
            found.append(f"{check.__name__.removeprefix('check_')}: {error}")
    if found:
        raise AssertionError("\n".join(found))


class AgentConformance:
    """The tests of an agent. Override `task` where yours needs another one to answer."""

    task: str = AgentTrial.task

    def make(self) -> AgentLike:
        """A new agent, each time; all of them give the same answer to the task."""
        raise NotImplementedError

    def check(self, check: Check) -> None:
        """Run one check."""
        anyio.run(check, AgentTrial(self.make, self.task))

    def test_it_keeps_the_contract(self) -> None:
        self.check(check_declaration)

    def test_it_answers_with_a_reply(self) -> None:
        self.check(check_reply)

    def test_its_reply_is_data(self) -> None:
        self.check(check_data)

    def test_a_failed_call_is_a_failure_and_no_answer(self) -> None:
        self.check(check_failure)

    def test_cancellation_is_not_swallowed(self) -> None:
        self.check(check_cancellation)

    def test_it_leaves_no_task_behind(self) -> None:
        self.check(check_tasks)

    def test_it_replays_from_every_point_of_its_record(self) -> None:
        self.check(check_replay)

    def test_its_policy_holds(self) -> None:
        self.check(check_policy)

    def test_its_declaration_can_be_read_back(self) -> None:
        self.check(check_spec)
