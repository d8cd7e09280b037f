"""What a recorded run would have been: exact where only prices, limits, widths or time differ, else an estimate."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Limits, ModelAgent, Team, Turn
from teamwright.agents import Attachment, as_tool
from teamwright.errors import UnknownName, UsageError
from teamwright.history.fork import fork_limits
from teamwright.history.run_history import RunHistory
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.simulation.replay import RecordedTurn, TimedCall
from teamwright.lab.simulation.what_if import RunChanges, WhatIfReport, what_if
from teamwright.teams.team_loader import load_team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, Fail, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentCalled
from teamwright.values.limits import Bounds
from teamwright.values.people import Answer, RaiseBudget, RemoveMember, Tell
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.results import RunResult
from teamwright.values.usage_and_prices import Price
from tests.kit.evaluators import WordEvaluator, evaluated, words
from tests.paths import ROOT

QUICK = RetryPolicy(backoff=0.01)
RELAY = """\
agents:
  writer: {{model: house, max_tokens: 40}}
  reviewer: {{model: house, max_tokens: 40}}
  critic: {{model: house, max_tokens: 40}}
teams:
  report: {{members: [writer, reviewer, critic]{limits}}}
models:
  house: {{model: "scripted:replies.yaml", price: {{input: 1.0, output: 5.0}}}}
  cheap: {{url: "http://127.0.0.1:9/v1", name: small, price: {{input: 0.1, output: 0.5}}}}
"""
REPLIES = """\
rules:
  - {agent: writer, reply: "A B-tree keeps its keys sorted, and its nodes are wide."}
  - {agent: reviewer, reply: "Right, but say why they are wide."}
  - {agent: critic, reply: "That is right, and short."}
"""
WIDE = """\
agents:
  worker: {model: scripted:slow.yaml}
teams:
  wide: {strategy: fan_out, members: [worker], fan_out: {chunks: [a, b, c, d], max_parallel: 1}}
"""
SLOW = 'rules: [{agent: worker, delay: 0.2, reply: "Done with it."}]'


def relay(folder: Path, limits: str = "") -> Team:
    folder.mkdir(exist_ok=True)
    (folder / "team.yaml").write_text(RELAY.format(limits=f", limits: {limits}" if limits else ""))
    (folder / "replies.yaml").write_text(REPLIES)
    return load_team(folder)


async def recorded(
    journal: MemoryJournal, team: Team, task: str = "Explain.", limits: Limits | None = None
) -> RunResult:
    async with Engine(journal) as engine:
        return await engine.run(team, task, run_id="r", limits=limits)


async def ask(journal: MemoryJournal, changes: RunChanges | None = None) -> WhatIfReport:
    async with Engine(journal) as engine:
        return await what_if(journal, await engine.runs.history("r"), changes or RunChanges())


EXAMPLES = (
    "sequential", "round_robin", "selector", "graph", "fan_out", "dag", "hierarchical", "single", "lead_subagent",
    "star_team", "a2a_lite", "budget", "expert_team", "expert_review", "rubric",
)  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
async def test_without_a_change_it_is_the_recorded_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, journal = ROOT / "examples" / name, MemoryJournal()
    monkeypatch.syspath_prepend(str(folder))
    result = await recorded(journal, load_team(folder), (folder / "task.txt").read_text())
    report = await ask(journal)
    assert (report.status, report.stop_reason) == (result.status, result.stop_reason)
    assert report.total.exact, report.notes
    for compared in (report.total, *report.members.values()):
        before, after = compared.recorded, compared.what_if
        assert (after.asks, after.input_tokens, after.output_tokens, after.usd) == (
            before.asks,
            before.input_tokens,
            before.output_tokens,
            before.usd,
        )


@pytest.mark.experts
async def test_a_team_that_works_on_files_is_an_estimate_that_says_why() -> None:
    folder, journal = ROOT / "examples" / "coding_team", MemoryJournal()
    await recorded(journal, load_team(folder))
    report = await ask(journal)
    assert report.status == "completed"
    assert report.members["receipts"].what_if.asks == 1
    assert "the team works on files: here no change is merged, and so none refused and resolved" in report.notes
    assert not report.total.exact


@pytest.mark.parametrize("tokens", [1, 60, 90, 110, 130, 150, 5000])
async def test_a_limit_stops_it_where_it_stops_a_real_run(tmp_path: Path, tokens: int) -> None:
    journal, real = MemoryJournal(), MemoryJournal()
    await recorded(journal, relay(tmp_path), limits=Limits(tokens=10_000))
    result = await recorded(real, relay(tmp_path), limits=Limits(tokens=tokens))
    report = await ask(journal, RunChanges(limits=Limits(tokens=tokens)))
    assert (report.status, report.stop_reason) == (result.status, result.stop_reason)
    if report.total.exact:
        assert report.total.what_if.total_tokens == result.usage.total_tokens
        assert report.total.what_if.usd == result.usage.usd
    assert (report.stopped is not None) == (result.stop_reason == "budget")


async def test_a_limit_on_money_is_named_with_the_turn_that_it_stops(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await recorded(journal, relay(tmp_path), limits=Limits(usd=1))
    report = await ask(journal, RunChanges(limits=Limits(usd=0.00025)))
    assert report.stopped is not None
    assert (report.stopped.key, report.stopped.member) == ("report/step-2", "reviewer")
    assert "$0.00025 left" in report.stopped.why
    assert report.members["writer"].exact
    assert report.total.recorded.total_tokens > report.total.what_if.total_tokens


async def test_a_limit_on_a_run_that_had_none_is_an_estimate_and_says_why(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await recorded(journal, relay(tmp_path))
    report = await ask(journal, RunChanges(limits=Limits(tokens=100_000)))
    assert not report.total.exact
    assert any("no limit applied to the recorded run" in note for note in report.notes)


async def test_what_a_raised_limit_would_have_paid_for_is_not_known(tmp_path: Path) -> None:
    journal = MemoryJournal()
    result = await recorded(journal, relay(tmp_path, "{tokens: 90}"))
    assert result.stop_reason == "budget"
    report = await ask(journal, RunChanges(limits=Limits(tokens=100_000)))
    assert (report.status, report.total.exact) == (None, False)
    assert any("the record ends here" in note for note in report.notes)
    assert report.total.what_if.total_tokens <= result.usage.total_tokens, "the run closed after it was refused"
    assert report.total.what_if.seconds < 60


async def test_more_members_at_once_change_the_time_alone(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(WIDE)
    (tmp_path / "slow.yaml").write_text(SLOW)
    journal = MemoryJournal()
    await recorded(journal, load_team(tmp_path))
    one, two, four = [await ask(journal, RunChanges(at_once=width)) for width in (1, 2, 4)]
    assert [report.total.exact for report in (one, two, four)] == [True, True, True]
    assert {report.total.what_if.total_tokens for report in (one, two, four)} == {one.total.recorded.total_tokens}
    assert one.total.what_if.seconds == pytest.approx(one.total.recorded.seconds, rel=0.25)
    assert two.total.what_if.seconds == pytest.approx(one.total.what_if.seconds / 2, rel=0.25)
    assert four.total.what_if.seconds == pytest.approx(one.total.what_if.seconds / 4, rel=0.25)


async def test_a_limit_on_time_stops_it_on_the_virtual_clock(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(WIDE)
    (tmp_path / "slow.yaml").write_text(SLOW)
    journal = MemoryJournal()
    await recorded(journal, load_team(tmp_path))
    report = await ask(journal, RunChanges(limits=Limits(seconds=0.5)))
    assert (report.status, report.stop_reason, report.total.exact) == ("timeout", "deadline", True)
    assert report.total.what_if.seconds == pytest.approx(0.5, abs=0.05)
    assert 0 < report.total.what_if.total_tokens < report.total.recorded.total_tokens
    assert report.stopped is not None
    assert report.stopped.why == "0.5 seconds passed"


async def test_a_reply_that_a_limit_cuts_makes_what_follows_an_estimate(tmp_path: Path) -> None:
    relay(tmp_path)
    (tmp_path / "team.yaml").write_text((tmp_path / "team.yaml").read_text().replace(", max_tokens: 40", ""))
    journal = MemoryJournal()
    await recorded(journal, load_team(tmp_path), limits=Limits(tokens=100_000))
    called = next(event.fact for event in await journal.read("r") if isinstance(event.fact, AgentCalled))
    prompt = called.reserved - (called.max_output or 0)
    report = await ask(journal, RunChanges(limits=Limits(tokens=prompt + 8)))
    assert "a reply of 'writer' is cut at 8 tokens" in report.notes
    assert not report.members["writer"].exact
    assert report.members["writer"].what_if.output_tokens == 8


def test_calls_that_overlapped_are_repeated_together() -> None:
    calls = [
        TimedCall("1", "a", "model", "m", began=0.0, ended=1.0),
        TimedCall("2", "a", "tool", "t", began=1.0, ended=3.0),
        TimedCall("3", "a", "tool", "t", began=1.5, ended=2.0),
        TimedCall("4", "a", "model", "m", began=3.0, ended=4.0),
    ]
    turn = RecordedTurn("t/step-1", "a", "digest", "work", tuple(calls), None)
    assert [[call.place for call in batch] for batch in turn.batches()] == [["1"], ["2", "3"], ["4"]]


@pytest.mark.parametrize(("model", "share"), [("cheap", 0.1), ("openai:gpt-4o", 0.25 * 2)])
async def test_another_model_is_an_estimate_from_there_on(tmp_path: Path, model: str, share: float) -> None:
    journal = MemoryJournal()
    await recorded(journal, relay(tmp_path))
    report = await ask(journal, RunChanges(models={"reviewer": model}))
    assert {name: one.exact for name, one in report.members.items()} == {
        "writer": True,
        "reviewer": False,
        "critic": False,
    }
    reviewer = report.members["reviewer"]
    assert reviewer.what_if.total_tokens == reviewer.recorded.total_tokens
    assert reviewer.what_if.usd is not None
    assert reviewer.recorded.usd is not None
    if model == "cheap":
        assert reviewer.what_if.usd == pytest.approx(reviewer.recorded.usd * share)
    else:
        assert reviewer.what_if.usd > reviewer.recorded.usd


async def test_another_topology_is_an_estimate_of_every_figure(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await recorded(journal, relay(tmp_path))
    report = await ask(journal, RunChanges(topology="star"))
    assert not any(one.exact for one in (report.total, *report.members.values()))
    assert report.status == "completed"
    assert report.total.what_if.total_tokens > report.total.recorded.total_tokens
    assert report == await ask(journal, RunChanges(topology="star"))


async def test_nothing_is_called_and_nothing_is_written() -> None:
    calls: list[str] = []

    def member(name: str) -> FunctionAgent:
        async def respond(task: str) -> str:
            calls.append(name)
            return f"{name}: {task}"

        return FunctionAgent(name, respond)

    journal = MemoryJournal()
    await recorded(journal, Team("t", members=[member("a"), member("b")]))
    events = await journal.read("r")
    report = await ask(journal)
    assert (calls, report.total.exact, report.status) == (["a", "b"], True, "completed")
    assert [run.id for run in await journal.runs()] == ["r"]
    assert await journal.read("r") == events


async def test_answers_of_people_are_those_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, journal = ROOT / "examples" / "approvals", MemoryJournal()
    monkeypatch.syspath_prepend(str(folder))
    team = load_team(folder)
    result = await recorded(journal, team, (folder / "task.txt").read_text())
    async with Engine(journal) as engine:
        while result.status == "paused":
            for key in (await engine.runs.history("r")).questions():
                await engine.runs.answer("r", key, Answer.approve())
            result = await engine.resume("r", team=team)
    report = await ask(journal)
    assert (report.status, report.total.exact) == (result.status, True)
    assert report.total.what_if.total_tokens == result.usage.total_tokens


async def test_files_of_the_task_and_a_ceiling_that_a_person_set_are_those_of_the_record() -> None:
    def look(turn: Turn) -> str:
        return f"{len(turn.attachments)} file"

    journal, team = MemoryJournal(), Team("t", members=[FunctionAgent("a", look), FunctionAgent("b", look)])
    async with Engine(journal) as engine:
        note, smaller = Attachment(b"a note", "note.txt"), Answer(text="smaller", data={"tokens": 7})
        await engine.run(team, "Look.", run_id="r", attachments=[note], confirm=lambda _: smaller)
    report = await ask(journal)
    assert (report.status, report.total.exact, report.notes) == ("completed", True, ())
    history = await RunHistory.load(journal, await journal.read("r"))
    assert fork_limits(history, None, history.number) == Bounds(tokens=7)
    assert fork_limits(history, Limits(tokens=9), history.number) == Bounds(tokens=9)


async def test_tools_agents_as_tools_and_retries_are_repeated_without_their_server() -> None:
    looked: list[str] = []

    def look(word: str) -> str:
        """Look a word up."""
        looked.append(word)
        return f"{word} is a word"

    def answer(request: ChatRequest) -> ChatAnswer:
        if request.number == 1:
            return Fail(status=503)
        if request.model != "writer" or any(one.role == "tool" for one in request.messages):
            return Say(text=f"That is all from {request.model}.")
        calls = (ToolCall(name="look", args={"word": "tree"}), ToolCall(name="expert", args={"task": "Why?"}))
        return CallTools(calls=calls)

    journal = MemoryJournal()
    with ModelServer(answer) as server:
        model = partial(ServerModel, url=server.url, price=Price(input=1, output=2))
        expert = ModelAgent("expert", model=model(name="expert"), description="Knows why.")
        writer = ModelAgent("writer", model=model(name="writer"), tools=[look, as_tool(expert)], retry=QUICK)
        inner = Team("inner", members=[ModelAgent("critic", model=model(name="critic"))])
        result = await recorded(journal, Team("t", members=[writer, inner]), limits=Limits(usd=1))
    assert (result.status, looked) == ("completed", ["tree"])
    same, fewer = await ask(journal), await ask(journal, RunChanges(limits=Limits(calls=4)))
    assert (same.total.exact, same.status, looked) == (True, "completed", ["tree"])
    assert (same.total.what_if.total_tokens, same.total.what_if.usd) == (result.usage.total_tokens, result.usage.usd)
    assert fewer.stopped is not None
    assert (fewer.stopped.member, fewer.total.exact) == ("writer", False), "'inner' would close with other words"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (RunChanges(models={"revewer": "cheap"}), "did you mean 'reviewer'"),
        (RunChanges(models={"reviewer": "openai:gpt-4oo"}), "No price is known .* did you mean 'openai:gpt-4o'"),
        (RunChanges(models={"reviewer": "chaep"}), "chaep"),
        (RunChanges(topology="str"), "did you mean 'star'"),
        (RunChanges(at_once=3), "work one after another"),
    ],
)
async def test_what_is_not_known_is_refused_with_a_suggestion(
    tmp_path: Path, changes: RunChanges, message: str
) -> None:
    journal = MemoryJournal()
    await recorded(journal, relay(tmp_path))
    with pytest.raises((UnknownName, UsageError), match=message):
        await ask(journal, changes)


async def test_verdicts_are_repeated_and_no_check_is_made_again() -> None:
    journal = MemoryJournal()
    team = Team("t", members=[FunctionAgent("a", lambda text: "good", evaluate=WordEvaluator(words()))])
    await recorded(journal, team)
    evaluated.clear()
    report = await ask(journal)
    assert (report.status, report.total.exact) == ("completed", True)
    assert evaluated == []


JUDGED = """\
agents:
  writer: {model: house}
  other: {model: house}
  critic: {model: house}
teams:
  pair:
    strategy: expert
    members: [writer, other]
    expert:
      max_parallel: 1
      revisions: 1
      steps: [{id: one, agent: writer}, {id: two, agent: other}]
      evaluate: {judge: critic, criteria: [{id: clear, judge: Is it clear?}]}
models:
  house: {model: "scripted:replies.yaml", price: {input: 1.0, output: 5.0}}
  cheap: {url: "http://127.0.0.1:9/v1", name: small, price: {input: 0.1, output: 0.5}}
"""
VERDICT = "{agent: critic, times: %s, json: {criteria: [{id: clear, passed: %s, score: %s}]}}"
MARKS = f"""\
rules:
  - {VERDICT % (1, "false", 0)}
  - {VERDICT % (9, "true", 1)}
  - {{delay: 0.2, reply: "A B-tree keeps its keys sorted."}}
"""


async def judged(folder: Path, limits: Limits | None = None) -> MemoryJournal:
    (folder / "team.yaml").write_text(JUDGED)
    (folder / "replies.yaml").write_text(MARKS)
    journal = MemoryJournal()
    result = await recorded(journal, load_team(folder), limits=limits)
    assert result.status == "completed"
    return journal


async def test_another_model_of_a_judge_changes_the_price_of_its_reviews_alone(tmp_path: Path) -> None:
    journal = await judged(tmp_path)
    report = await ask(journal, RunChanges(models={"critic": "cheap"}))
    reviews, writer = report.members["rubric"], report.members["writer"]
    assert reviews.recorded.usd is not None
    assert reviews.what_if.usd == pytest.approx(reviews.recorded.usd / 10)
    assert (reviews.what_if.total_tokens, reviews.exact) == (reviews.recorded.total_tokens, False)
    assert writer.what_if.usd == writer.recorded.usd
    assert (report.status, writer.exact) == ("completed", False), "the writer revised what this judge said"


async def test_another_model_of_an_author_leaves_its_reviews_as_they_were(tmp_path: Path) -> None:
    report = await ask(await judged(tmp_path), RunChanges(models={"other": "cheap"}))
    assert report.members["writer"].exact
    assert report.members["rubric"].what_if.usd == report.members["rubric"].recorded.usd


async def test_a_limit_stops_a_reviewed_run_where_it_stops_a_real_one(tmp_path: Path) -> None:
    journal = await judged(tmp_path, Limits(tokens=100_000))
    report = await ask(journal, RunChanges(limits=Limits(tokens=250)))
    assert report.stopped is not None
    assert report.total.what_if.total_tokens < report.total.recorded.total_tokens


async def test_more_steps_of_an_expert_team_at_once_change_the_time_alone(tmp_path: Path) -> None:
    report = await ask(await judged(tmp_path), RunChanges(at_once=2))
    assert report.total.what_if.total_tokens == report.total.recorded.total_tokens
    assert report.total.what_if.seconds < report.total.recorded.seconds


@pytest.mark.parametrize("topology", ["single", "lead", "star"])
async def test_a_reviewed_run_in_another_topology_is_estimated(tmp_path: Path, topology: str) -> None:
    report = await ask(await judged(tmp_path), RunChanges(topology=topology))
    assert not report.total.exact
    assert report.total.what_if.total_tokens > 0


async def test_a_stop_says_what_was_kept_for_the_answer() -> None:
    journal = MemoryJournal()
    await recorded(journal, Team("relay", members=[FunctionAgent(name, lambda turn: "on") for name in "abc"]))
    report = await ask(journal, RunChanges(limits=Limits(calls=2)))
    assert report.stopped is not None
    why = "the run has 1 of 2 calls left, keeps 1 for its answer, and the next call may need 1"
    assert (report.stopped.member, report.stopped.why) == ("b", why)


async def test_a_refusal_that_a_cheaper_model_makes_up_for_stops_nothing() -> None:
    journal = MemoryJournal()
    with ModelServer(lambda request: Say(text="word " * 20)) as server:
        dear, cheap = (
            ServerModel(url=server.url, name=name, price=Price(input=price, output=price))
            for name, price in (("dear", 100.0), ("cheap", 1.0))
        )
        member = ModelAgent("a", model=dear, economy=cheap, max_tokens=40)
        await recorded(journal, Team("t", members=[member], degradation="auto"), limits=Limits(usd=1))
    report = await ask(journal, RunChanges(limits=Limits(usd=0.003)))
    assert (report.status, report.stop_reason, report.stopped) == ("completed", "done", None)
    assert "'a' answers with its economy model" in report.notes


async def test_what_people_said_and_raised_counts_in_the_other_run_too(tmp_path: Path) -> None:
    journal = MemoryJournal()
    await journal.send("r", Tell(text="Be brief, all of you, and kind."))
    await journal.send("r", RaiseBudget(calls=9))
    assert (await recorded(journal, relay(tmp_path, "{calls: 2}"))).status == "completed"
    report = await what_if(journal, await RunHistory.load(journal, await journal.read("r")), RunChanges())
    assert (report.status, report.total.what_if.total_tokens) == ("completed", report.total.recorded.total_tokens)
    assert report.total.what_if.asks == 3
    assert "people said something to the recorded run; here they say it before the run starts" in report.notes
    assert not any("is asked something else" in note for note in report.notes)


@pytest.mark.experts
async def test_a_run_whose_team_people_changed_is_refused_in_words(tmp_path: Path) -> None:
    journal = MemoryJournal()
    (tmp_path / "team.yaml").write_text(
        "agents: {lead: {function: 'json:dumps'}, worker: {function: 'json:dumps'}, b: {function: 'json:dumps'}}\n"
        "teams: {t: {strategy: collaborate, members: [lead, worker, b], collaborate: {steps: [{id: worker}]}}}\n"
    )
    await journal.send("r", RemoveMember(member="b"))
    await recorded(journal, load_team(tmp_path))
    with pytest.raises(UsageError, match="People changed the plan or the members of the run 'r' while it worked"):
        await what_if(journal, await RunHistory.load(journal, await journal.read("r")), RunChanges())
