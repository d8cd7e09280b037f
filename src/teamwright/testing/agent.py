"""The conformance suite for agents: subclass `AgentConformance`, override `make`, and let pytest collect it.

class TestMyAgent(AgentConformance):
    def make(self) -> Agent:
        return MyAgent("mine")

`check_agent` runs the same checks in one call. Each failure names the mistake and the fix.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
from pydantic_core import PydanticSerializationError, to_json

from teamwright.agents.agent import Agent, require_agent
from teamwright.errors import InvalidName, NonDeterminism
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.trial import (
    INJECTED_CALL_ERROR,
    RUN_ID,
    BodyJournal,
    FaultInjector,
    ObservedAgent,
    TrialLog,
    run_checks,
)
from teamwright.values.names import check_name
from teamwright.values.specs.manifest import AgentSpec, TeamSpec
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply


@dataclass(frozen=True)
class AgentTrial:
    """How to create and ask the agent under test. `make` must return a new one each time, with the same answers."""

    make: Callable[[], Agent]
    task: str = "Say something."
    seconds: float = 20.0

    async def run(
        self, faults: FaultInjector | None = None, work: str | None = None
    ) -> tuple[ObservedAgent, RunResult, TrialLog]:
        """Ask the agent once, with these faults injected, and with this work in place of the task."""
        observed, journal = ObservedAgent(self.make(), faults, work), BodyJournal()
        async with self.engine(journal) as engine:
            result = await engine.run(self.team(observed), self.task, run_id=RUN_ID)
        return observed, result, TrialLog(await journal.read(RUN_ID), journal.written_bodies)

    def team(self, agent: Agent) -> Team:
        """A team around the agent, so that a team under test is a member too."""
        return Team("trial", members=[agent])

    @asynccontextmanager
    async def engine(self, journal: BodyJournal) -> AsyncGenerator[Engine]:
        """An engine on this journal; fails if its block exceeds the time limit."""
        with anyio.move_on_after(self.seconds) as time:
            async with Engine(journal) as engine:
                yield engine
        assert not time.cancelled_caught, f"The turn did not end within {self.seconds:g} seconds."


async def check_declaration(trial: AgentTrial) -> None:
    """Check that it has a name and a kind, and fulfils the contract."""
    agent = require_agent(trial.make())
    try:
        check_name("agent", agent.name)
    except InvalidName as error:
        raise AssertionError(f"The name can't be used in a team: {error}") from error
    kind = cast("object", agent.kind)
    assert isinstance(kind, str), f"`kind` must be a text that says what sort of agent it is, not {kind!r}."
    assert kind, "`kind` must say what sort of agent it is."
    assert trial.make() is not agent, "`make` must return a new agent on each call, as a resume in a new process does."


async def check_reply(trial: AgentTrial) -> None:
    """Check that it answers a turn with a `Reply` under its own name."""
    observed, result, _ = await trial.run()
    assert observed.error is None, f"`respond` raised {observed.error!r}; set `task` to one that the agent can answer."
    reply = observed.reply
    assert isinstance(reply, Reply), f"`respond` must return a Reply, not {reply!r}; see Reply.of(name, text)."
    assert result.failure is None, f"The reply could not be recorded: {result.failure.message}"
    if observed.kind != "team":
        others = {message.name for message in reply.messages} - {observed.name}
        assert not others, f"A reply must carry the agent's own name, {observed.name!r}, not {', '.join(others)}."


async def check_data(trial: AgentTrial) -> None:
    """Check that the data of its reply is JSON, which a record can hold."""
    observed, _, _ = await trial.run()
    reply = observed.reply
    if not isinstance(reply, Reply):
        return
    try:
        to_json([reply.data, reply.context_updates])
    except PydanticSerializationError as error:
        raise AssertionError(f"The reply holds {error}: `data` must be JSON, since records are data only.") from error


async def check_failure(trial: AgentTrial) -> None:
    """Check that a failed call fails the agent with an `AgentError`, and that the error text is not its answer."""
    observed, result, _ = await trial.run(FaultInjector("fail"))
    if not observed.faults.has_injected:
        return
    if observed.error is not None:
        failure = result.failure
        assert failure is None or failure.error != "crash", (
            f"When a call fails, `respond` raises {observed.error!r}; propagate the call's AgentError, or raise one."
        )
        return
    text = observed.reply.text if isinstance(observed.reply, Reply) else ""
    assert INJECTED_CALL_ERROR not in text, (
        "When a call fails, the agent returns the text of the error as its answer; raise it."
    )


async def check_cancellation(trial: AgentTrial) -> None:
    """Cancel it during a call: it ends at once and leaves no task behind."""
    observed, _, _ = await trial.run(FaultInjector("hang"))
    if not observed.faults.has_injected:
        return
    assert observed.ended, "Cancelled during a call, the agent goes on: propagate CancelledError."
    assert observed.cancelled, (
        "Cancelled during a call, the agent answers or fails in another way: it must not swallow cancellation."
    )
    assert not observed.leaked_tasks, (
        f"Cancelled, the agent leaves tasks behind: {', '.join(observed.leaked_tasks)}; every task needs a parent."
    )


async def check_tasks(trial: AgentTrial) -> None:
    """Check that every task it started has ended when it answers."""
    observed, _, _ = await trial.run()
    assert not observed.leaked_tasks, (
        f"The agent has answered, and these tasks still run: {', '.join(observed.leaked_tasks)}; await or cancel them."
    )


async def check_replay(trial: AgentTrial) -> None:
    """Truncate the record after each event and resume: it makes the same calls and repeats no recorded one."""
    observed, expected, log = await trial.run()
    for number in range(1, len(log.events)):
        last, again = log.events[number - 1], ObservedAgent(trial.make())
        where = f"Cut after event {number} ({last.kind} at {last.key!r}) and resumed, the agent"
        try:
            async with trial.engine(cast("Any", log.truncated(number))) as engine:
                result = await engine.resume(RUN_ID, team=trial.team(again))
        except NonDeterminism as error:
            raise AssertionError(
                f"{where} does something else: the record has {error.recorded}, the agent now {error.replayed}. Derive"
                " keys of calls from the turn, never from randomness, time or state that outlives it."
            ) from error
        assert result.output == expected.output, (
            f"{where} answers {result.output!r}, and in an uninterrupted run {expected.output!r}: get whatever differs"
            " from run to run through ctx.effect or ctx.clock."
        )
        recorded = observed.recorded_calls(log, number)
        assert len(recorded) + len(again.calls) <= len(observed.calls), (
            f"{where} repeats calls that are recorded: {', '.join(sorted(again.calls))}. Derive their keys from the"
            " turn, never from randomness, time or state that outlives it."
        )


async def check_policy(trial: AgentTrial) -> None:
    """Check that its policy is constant: an agent must not change its own limits."""
    agent = trial.make()
    before = agent.policy
    assert agent.policy == before, "The policy differs each time it is read; create it once."
    observed = ObservedAgent(agent)
    async with trial.engine(BodyJournal()) as engine:
        await engine.run(trial.team(observed), trial.task, run_id=RUN_ID)
    assert agent.policy == before, "A turn changes the policy of the agent, so its limits do not bound it."


async def check_spec(trial: AgentTrial) -> None:
    """Check that its `spec`, if any, is a declaration that survives a round trip through JSON."""
    spec = cast("object", trial.make().spec)
    if spec is None:
        return
    assert isinstance(spec, AgentSpec | TeamSpec), f"`spec` must be a declaration or None, not {spec!r}."
    written = spec.model_dump(mode="json", exclude_unset=True)
    assert type(spec).model_validate(written) == spec, "`spec` changes when it is written as JSON and read back."
    assert spec == trial.make().spec, "`spec` differs between two agents that `make` returns."


Check = Callable[[AgentTrial], Awaitable[None]]
CHECKS: tuple[Check, ...] = (
    check_declaration, check_reply, check_data, check_failure, check_cancellation, check_tasks, check_replay,
    check_policy, check_spec,
)  # fmt: skip


def check_agent(make: Callable[[], Agent], task: str = AgentTrial.task) -> None:
    """Run all checks on an agent; raises one `AssertionError` that lists every mistake."""
    trial = AgentTrial(make, task)
    run_checks(CHECKS, trial)


class AgentConformance:
    """The tests of an agent. Override `task` if yours can't answer the default one."""

    task: str = AgentTrial.task

    def make(self) -> Agent:
        """Return a new agent on each call; all of them give the same answer to the task."""
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
