"""What is tried after a failed ask, in its order, and that a crash in between changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, RunResult, ScriptedAgent, Team, Turn
from teamwright.agents.compaction import CHUNK, SUMMARISE, split_transcript
from teamwright.agents.scripted import Rule
from teamwright.errors import AgentError, ContextTooLong, InvalidRequest, RateLimited, Refused, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.teams.team_loader import load_team
from teamwright.values.events.agent import AgentCallFailed, AgentRecovered
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunPaused
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.messages import Message
from tests.kit.records import cut_and_resume

AT_ONCE = RetryPolicy(times=1, backoff=0)


class FailingMembers:
    """Members that answer or fail as the test says, and record what they receive."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Turn]] = []

    def says(self, name: str, text: str = "", **more: object) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            self.heard.append((name, turn))
            return text or f"{name} said"

        return FunctionAgent(name, respond, retry=AT_ONCE, **more)  # pyright: ignore[reportArgumentType]

    def fails(self, name: str, error: AgentError, times: int = 99, **more: object) -> FunctionAgent:
        left = [times]

        async def respond(turn: Turn) -> str:
            self.heard.append((name, turn))
            left[0] -= 1
            if left[0] >= 0:
                raise error
            return f"{name} said after all"

        return FunctionAgent(name, respond, retry=AT_ONCE, **more)  # pyright: ignore[reportArgumentType]


async def run(team: Team) -> tuple[RunResult, list[Event], MemoryJournal]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "the task", run_id="r")
    return result, await journal.read("r"), journal


def tried(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(e.fact.error, e.fact.how, e.fact.to) for e in events if isinstance(e.fact, AgentRecovered)]


@pytest.mark.parametrize("error", [RateLimited("slow down"), ServiceError("500"), ContextTooLong("too long")])
async def test_a_fallback_is_asked_when_a_member_cannot_answer(error: AgentError) -> None:  # P-10
    fakes = FailingMembers()
    team = Team("t", members=[fakes.fails("a", error, fallback=fakes.says("b")), fakes.says("c")])
    result, events, _ = await run(team)
    assert [message.name for message in result.messages] == ["b", "c"]
    assert tried(events) == [(error.kind, "fell_back", "b")]
    assert [event.key for event in events if event.kind == "agent.asked"][1:3] == ["t/step-1", "t/step-1#2"]
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("fallback", "then"), [("b", "'b' answered in its place"), ("a", "its fallback model answered in its place")]
)
async def test_a_fallback_of_a_member_with_wrong_settings_is_a_warning(fallback: str, then: str) -> None:
    fakes = FailingMembers()
    wrong = fakes.fails("a", InvalidRequest("The model 'gpt-6' refused the request"), fallback=fakes.says(fallback))
    result, _, _ = await run(Team("t", members=[wrong]))
    text = f"t: 'a' failed (invalid_request: The model 'gpt-6' refused the request), and {then}"
    assert (result.status, result.warnings) == ("degraded", (text,))


async def test_wrong_settings_are_named_also_where_the_fallback_fails_too() -> None:
    fakes = FailingMembers()
    other = fakes.fails("b", ServiceError("no connection"))
    wrong = fakes.fails("a", InvalidRequest("The model 'gpt-6' refused the request"), fallback=other)
    result, _, _ = await run(Team("t", members=[wrong]))
    assert result.status == "failed"
    assert any("gpt-6" in warning for warning in result.warnings)


async def test_the_text_of_the_failure_reaches_no_member() -> None:  # law 5
    fakes = FailingMembers()
    team = Team("t", members=[fakes.fails("a", Refused("SECRET TROUBLE"), fallback=fakes.says("b")), fakes.says("c")])
    await run(team)
    assert not any("TROUBLE" in turn.prompt for _, turn in fakes.heard)


async def test_a_team_sets_fallback_and_retries_for_members_that_set_none() -> None:  # P-10
    fakes, calls = FailingMembers(), list[str]()

    async def flaky(turn: Turn) -> str:
        calls.append("call")
        raise ServiceError("down")

    retry = RetryPolicy(times=2, backoff=0)
    team = Team("t", members=[FunctionAgent("a", flaky)], retry=retry, fallback=fakes.says("b"))
    result, events, _ = await run(team)
    assert result.output == "b said"
    assert len(calls) == 3
    assert len([e for e in events if isinstance(e.fact, AgentCallFailed)]) == 3


async def test_a_nested_team_inherits_each_of_them_that_it_does_not_set() -> None:  # P-10
    fakes, calls = FailingMembers(), list[str]()

    async def flaky(turn: Turn) -> str:
        calls.append("call")
        raise ServiceError("down")

    inner = Team("inner", members=[FunctionAgent("a", flaky)], retry=RetryPolicy(times=1, backoff=0))
    outer = Team("outer", members=[inner], retry=RetryPolicy(times=5, backoff=0), fallback=fakes.says("b"))
    result, _, _ = await run(outer)
    assert result.output == "b said"
    assert len(calls) == 2


async def test_a_conversation_that_is_too_long_is_summarised_and_the_member_asked_again() -> None:  # P-10
    told: list[Turn] = []

    async def small(turn: Turn) -> str:
        told.append(turn)
        if len(turn.prompt) > CHUNK + len(SUMMARISE) + 200:
            raise ContextTooLong("it does not fit")
        return "a summary" if turn.task.startswith(SUMMARISE) else f"answer to {turn.task}"

    fakes = FailingMembers()
    long = [fakes.says(name, f"{name} " * CHUNK) for name in ("x", "y")]
    team = Team("t", members=[*long, fakes.says("z", "the last word"), FunctionAgent("small", small)])
    result, events, _ = await run(team)
    assert result.output == "answer to the task"
    assert tried(events) == [("context_length", "summarised", "small")]
    last = told[-1]
    assert [message.name for message in last.history] == ["summary", "z"]
    assert last.history[-1].content == "the last word"
    assert [message.name for message in result.messages] == ["x", "y", "z", "small"]


async def test_with_nothing_to_summarise_the_failure_stands() -> None:
    fakes = FailingMembers()
    result, events, _ = await run(Team("t", members=[fakes.fails("a", ContextTooLong("too long"))]))
    assert (result.status, result.failure.error if result.failure else "") == ("failed", "context_length")
    assert tried(events) == []


async def test_an_optional_member_is_skipped_with_a_warning() -> None:  # P-10
    fakes = FailingMembers()
    team = Team("t", members=[fakes.fails("a", Refused("no"), optional=True), fakes.says("b")])
    result, _, _ = await run(team)
    assert (result.status, result.stop_reason, result.exit_code) == ("degraded", "done", 3)
    assert [message.name for message in result.messages] == ["b"]
    assert "'a' failed and was skipped" in result.warnings[0]


@pytest.mark.parametrize(
    ("answer", "status", "speakers"),
    [("retry", "completed", ["a", "b"]), ("skip", "degraded", ["b"]), ("abort", "failed", [])],
)
async def test_a_critical_member_pauses_the_run_until_a_person_decides(
    answer: str, status: str, speakers: list[str], tmp_path: Path
) -> None:  # P-10, P-11
    fakes = FailingMembers()
    team = Team("t", members=[fakes.fails("a", Refused("no"), times=1, critical=True), fakes.says("b")])
    path = tmp_path / "j.db"
    async with Engine(path) as engine:
        paused = await engine.run(team, "go", run_id="r")
        assert (paused.status, paused.stop_reason, paused.exit_code) == ("paused", "retries_exhausted", 7)
    async with Engine(path) as engine:
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, answer)
        result = await engine.resume("r", team=team)
        events = await engine.journal.read("r")
    assert (result.status, [message.name for message in result.messages]) == (status, speakers)
    assert [e.fact.stop_reason for e in events if isinstance(e.fact, RunPaused)] == ["retries_exhausted"]


async def test_fallback_comes_before_a_person_is_asked() -> None:
    fakes = FailingMembers()
    member = fakes.fails("a", Refused("no"), critical=True, fallback=fakes.fails("b", Refused("no")))
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[member]), "go", run_id="r")
        assert [how for _, how, _ in tried(await engine.journal.read("r"))] == ["fell_back", "asked_person"]


def team_in_trouble() -> Team:
    fakes = FailingMembers()
    long = fakes.says("x", "word " * CHUNK)

    async def small(turn: Turn) -> str:
        if len(turn.prompt) > 2 * CHUNK:
            raise ContextTooLong("it does not fit")
        return f"{len(turn.prompt)}"

    return Team(
        "t",
        members=[
            long,
            FunctionAgent("small", small),
            fakes.fails("a", ServiceError("down"), fallback=fakes.says("b")),
            fakes.fails("c", Refused("no"), optional=True),
        ],
    )


async def test_recovery_resumes_to_the_same_result_from_every_point() -> None:  # law 2
    result, events, journal = await run(team_in_trouble())
    for at in range(1, len(events)):
        again, _ = await cut_and_resume(team_in_trouble(), at, journal)
        assert (again.status, again.messages, again.warnings) == (result.status, result.messages, result.warnings)


async def test_a_budget_stop_is_not_recovered_from() -> None:
    from teamwright import Limits

    fakes = FailingMembers()
    team = Team("t", members=[fakes.says("a"), fakes.says("b", fallback=fakes.says("c"))], limits=Limits(calls=1))
    result, events, _ = await run(team)
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert tried(events) == []


@pytest.mark.parametrize("sizes", [[], [10], [CHUNK, 5], [3 * CHUNK], [100] * 500])
def test_pieces_are_bounded_and_lose_nothing(sizes: list[int]) -> None:
    messages = [Message(name="m", content="x" * size) for size in sizes]
    pieces = list(split_transcript(messages))
    assert all(len(piece) <= CHUNK for piece in pieces)
    assert sum(piece.count("x") for piece in pieces) == sum(sizes)


MANIFEST = """
agents:
  a: {model: scripted:a.yaml, retry: {times: 0}, fallback: b}
  b: {model: scripted:b.yaml}
  c: {model: scripted:a.yaml, retry: {times: 0}, fallback: {model: "scripted:b.yaml"}, too_long: fail}
teams:
  t: {members: [a, c], fallback: b, too_long: fallback}
"""


async def test_policies_are_declared_and_survive_a_resume(tmp_path: Path) -> None:  # P-10
    (tmp_path / "team.yaml").write_text(MANIFEST)
    (tmp_path / "a.yaml").write_text("rules: [{error: server}]")
    (tmp_path / "b.yaml").write_text("rules: [{reply: from the fallback}]")
    team = load_team(tmp_path / "team.yaml")
    async with Engine("memory") as engine:
        result = await engine.run(team, "go", run_id="r")
        again = await engine.fork("r", at=3)
    assert [(one.name, one.content) for one in result.messages] == [
        ("b", "from the fallback"),
        ("c", "from the fallback"),
    ]
    assert again.messages == result.messages


async def test_an_agent_says_its_fallback_in_its_spec() -> None:
    other = ScriptedAgent("b", [Rule(reply="x")])
    assert ScriptedAgent("a", [Rule(reply="x")], fallback=other, too_long="fail").spec.fallback == "b"


async def test_an_optional_member_stays_optional_when_its_fallback_fails_too() -> None:
    fakes = FailingMembers()
    member = fakes.fails("a", Refused("no"), optional=True, fallback=fakes.fails("b", Refused("nor I")))
    result, _, _ = await run(Team("t", members=[member, fakes.says("c")]))
    assert (result.status, [message.name for message in result.messages]) == ("degraded", ["c"])
