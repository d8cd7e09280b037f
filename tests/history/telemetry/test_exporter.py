from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

import anyio
import pytest

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.history.telemetry import exporter as module
from teamwright.history.telemetry.exporter import Exporter
from teamwright.history.telemetry.otlp import CONTENT, HEADERS, encode
from teamwright.history.telemetry.run_spans import spans_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Journal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.people import Question
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage
from tests.kit.records import cut
from tests.kit.telemetry import OtlpReceiver, attributes_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send at once, and wait for little."""
    for name, seconds in {"LINGER_SECONDS": 0.01, "FIRST_WAIT": 0.02, "LONGEST_WAIT": 0.05}.items():
        monkeypatch.setattr(module, name, seconds)


def member(name: str, says: str = "said") -> FunctionAgent:
    async def call(attempt: Attempt) -> Returned:
        return Returned(says, Usage(requests=1, input_tokens=7, output_tokens=3))

    async def respond(turn: Turn, ctx: Context) -> str:
        return str((await ctx.effect("request-1", Effect("model", "openai:m", turn.digest, call))).value)

    return FunctionAgent(name, respond)


def team(*names: str) -> Team:
    return Team("t", members=[member(name) for name in names or ("a", "b")])


def person() -> FunctionAgent:
    async def respond(turn: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="well?"), key="q")).text

    return FunctionAgent("p", respond)


async def wait_for(condition: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - it becomes true in a thread
            await asyncio.sleep(0.01)


def ids(spans: Sequence[object]) -> list[bytes]:
    return [getattr(one, "span_id") for one in spans]  # noqa: B009 - of two types


async def events_of(journal: Journal, run_id: str = "r") -> list[Event]:
    return await journal.read(run_id)


async def test_a_live_run_arrives_as_it_is_read_from_its_record() -> None:
    with OtlpReceiver() as receiver:
        journal = MemoryJournal()
        async with Engine(journal, otlp=receiver.url) as engine:
            await engine.run(team(), "task", run_id="r")
            exporter = engine.driver.exporter
        assert exporter is not None
        expected = spans_of(await events_of(journal))
        assert b"".join(post.body for post in receiver.posts) == encode(expected)
        assert {post.path for post in receiver.posts} == {"/v1/traces"}
        assert (exporter.sent, exporter.lost) == (len(expected), 0)


async def test_without_a_receiver_nothing_listens_and_no_thread_starts() -> None:
    async with Engine("memory") as engine:
        assert engine.driver.exporter is None
        assert not engine.bus._event_listeners
    with OtlpReceiver() as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            assert engine.driver.exporter is not None
            assert engine.driver.exporter._thread is None
        assert not receiver.posts


async def test_a_pause_ends_the_drive_and_the_next_one_continues_the_trace() -> None:
    with OtlpReceiver() as receiver:
        journal = MemoryJournal()
        made = Team("t", members=[member("a"), person(), member("b")])
        async with Engine(journal, otlp=receiver.url) as engine:
            await engine.run(made, "task", run_id="r")
            await wait_for(lambda: any(one.name == "run t" for one in receiver.taken))
            assert [one.name for one in receiver.taken][-3:] == ["invoke_agent p", "invoke_workflow t", "run t"]
            sent = len(receiver.taken)
            await engine.runs.answer("r", "t/step-2/q", "yes")
        async with Engine(journal, otlp=receiver.url) as engine:  # as another process
            await engine.resume("r", team=made)
        whole = spans_of(await events_of(journal))
        assert ids(receiver.taken) == ids(whole), "what the first driver sent is not sent again"
        names = [one.name for one in receiver.taken[sent:]]
        assert names == [
            "wait for a person", "invoke_agent p", "chat m", "invoke_agent b", "invoke_workflow t", "run t",
        ]  # fmt: skip
        assert len({one.trace_id for one in receiver.taken}) == 1
        drives = [one for one in receiver.taken if one.name == "run t"]
        assert [link.span_id for link in drives[1].links] == [drives[0].span_id]


@pytest.mark.parametrize("statuses", [[503, 429, 200], [502, 504, 200]])
async def test_what_a_busy_receiver_refuses_is_sent_again(
    statuses: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with OtlpReceiver(statuses, headers={"Retry-After": "0"}) as receiver:
        journal = MemoryJournal()
        async with Engine(journal, otlp=receiver.url) as engine:
            await engine.run(team(), "task", run_id="r")
            await wait_for(lambda: len(receiver.posts) > 2)
        assert sorted(ids(receiver.taken)) == sorted(ids(spans_of(await events_of(journal))))
    assert [one.message.count("runs export RUN") for one in caplog.records] == [1]


async def test_a_receiver_that_fails_for_good_is_not_asked_again_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with OtlpReceiver([500]) as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            for number in range(3):
                assert (await engine.run(team(), "task", run_id=f"r{number}")).status == "completed"
                await wait_for(lambda number=number: len(receiver.posts) > number)
            exporter = engine.driver.exporter
        sent = [one for post in receiver.posts for one in ids(post.spans)]
        assert len(sent) == len(set(sent))
        assert exporter is not None
        assert (exporter.sent, exporter.lost) == (0, len(sent))
    said = f"The receiver of telemetry at {receiver.url[7:]} answers HTTP 500; runs go on, and can be sent later with"
    assert [one.message for one in caplog.records] == [f"{said}  teamwright runs export RUN --out URL"]


async def test_a_receiver_that_is_away_is_said_once_and_costs_the_end_of_a_program_little(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with OtlpReceiver() as receiver:
        url = receiver.url
    async with Engine("memory", otlp=url) as engine:
        await engine.run(team(), "task")
        exporter = engine.driver.exporter
        await wait_for(lambda: caplog.records)
        began = monotonic()
    assert monotonic() - began < module.FLUSH_SECONDS + 2
    assert exporter is not None
    assert exporter.lost > 0
    assert len(caplog.records) == 1
    assert "can't be reached" in caplog.records[0].message


async def test_a_receiver_that_hangs_holds_up_no_run_and_the_end_of_a_program_for_a_bounded_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.3)
    with OtlpReceiver() as receiver:
        receiver.may_answer.clear()
        async with Engine("memory", otlp=receiver.url) as engine:
            for _ in range(3):
                with anyio.fail_after(5):
                    await engine.run(team(), "task")
            await wait_for(lambda: receiver.posts)
            began = monotonic()
        assert monotonic() - began < 5
    assert len(caplog.records) == 1
    assert "does not answer in time" in caplog.records[0].message


async def test_spans_that_a_receiver_leaves_out_are_said(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver(rejects=2) as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            await engine.run(team(), "task")
            exporter = engine.driver.exporter
    assert exporter is not None
    assert exporter.lost == 2 * len(receiver.posts)
    assert "did not take 2 spans" in caplog.records[0].message


async def test_a_run_that_a_crash_cut_off_is_sent_whole_by_the_next_driver() -> None:
    with OtlpReceiver() as receiver:
        whole = MemoryJournal()
        async with Engine(whole) as engine:
            await engine.run(team("a", "b", "c"), "task", run_id="r")
        for at in range(2, len(await whole.read("r"))):
            receiver.posts.clear()
            journal = await cut(whole, at)
            async with Engine(journal, otlp=receiver.url) as engine:
                await engine.resume("r", team=team("a", "b", "c"))
            assert ids(receiver.taken) == ids(spans_of(await events_of(journal))), f"cut after event {at}"


async def test_what_can_not_be_kept_is_given_up_and_said_and_the_run_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 5)
    with OtlpReceiver() as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            result = await engine.run(Team("t", members=[member(f"m{one}") for one in range(30)]), "task")
    assert result.status == "completed"
    assert "can't keep up" in caplog.records[0].message
    assert len(caplog.records) == 1


async def test_spans_beyond_what_may_wait_are_counted_as_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_SPANS", 3)
    monkeypatch.setattr(module, "LINGER_SECONDS", 5.0)
    with OtlpReceiver() as receiver:
        journal = MemoryJournal()
        async with Engine(journal, otlp=receiver.url) as engine:
            await engine.run(team(), "task", run_id="r")
            exporter = engine.driver.exporter
        whole = spans_of(await events_of(journal))
        assert exporter is not None
        assert (exporter.sent, exporter.lost) == (3, len(whole) - 3)
        assert ids(receiver.taken) == ids(whole[-3:])
    assert "can't keep up" in caplog.text


@pytest.mark.parametrize("endpoint", ["localhost:4317", "ftp://host", "http://", "http://a b", "http://[::1", ""])
async def test_an_address_that_is_none_is_said_and_the_run_goes_on(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Engine("memory", otlp=endpoint) as engine:
        assert (await engine.run(team(), "task")).status == "completed"
    assert len(caplog.records) == 1
    assert "No telemetry is sent" in caplog.records[0].message


async def test_an_error_of_telemetry_is_none_of_the_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, event: Event) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("teamwright.history.telemetry.run_spans.SpanFold.apply", broken)
    with OtlpReceiver() as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            assert (await engine.run(team(), "task")).status == "completed"
    assert ["a mistake of ours" in one.message for one in caplog.records] == [True]


async def test_a_run_that_is_deleted_before_it_is_sent_costs_no_other_its_telemetry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(CONTENT, "true")
    monkeypatch.setattr(module, "LINGER_SECONDS", 1.0)
    with OtlpReceiver() as receiver:
        async with Engine(tmp_path / "j.db", otlp=receiver.url) as engine:
            await engine.run(Team("t", members=[member("a", "these words")]), "gone", run_id="gone")
            await engine.runs.delete("gone")
            await engine.run(team(), "task", run_id="kept")
            await wait_for(lambda: receiver.posts)
        assert {attributes_of(one)["teamwright.run.id"] for one in receiver.taken} == {"kept"}
    assert not caplog.records


async def test_content_is_sent_live_where_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver() as receiver:
        async with Engine("memory", otlp=receiver.url) as engine:
            await engine.run(Team("t", members=[member("a", "the words")]), "the question")
        assert b"the words" not in b"".join(post.body for post in receiver.posts)
        monkeypatch.setenv(CONTENT, "true")
        async with Engine("memory", otlp=receiver.url) as engine:
            await engine.run(Team("t", members=[member("a", "the words")]), "the question")
        found = b"".join(post.body for post in receiver.posts)
        assert b"the words" in found
        assert b"the question" in found


async def test_headers_are_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(HEADERS, "Authorization=Bearer%20verysecret-0815,X-Project=one")
    caplog.set_level(logging.DEBUG)
    with OtlpReceiver([401]) as receiver:
        async with Engine("memory", otlp=receiver.url.replace("//", "//me:password-4711@")) as engine:
            await engine.run(team(), "task")
    assert receiver.posts[0].headers["authorization"] == "Bearer verysecret-0815"
    assert receiver.posts[0].headers["x-project"] == "one"
    assert "verysecret" not in caplog.text
    assert "password-4711" not in caplog.text


async def test_runs_at_the_same_time_have_traces_of_their_own(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        async with Engine(tmp_path / "j.db", otlp=receiver.url) as engine, anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(lambda number=number: engine.run(team(), "task", run_id=f"r{number}"))
        runs: dict[bytes, set[object]] = {}
        for one in receiver.taken:
            runs.setdefault(one.trace_id, set()).add(attributes_of(one)["teamwright.run.id"])
        assert sorted(len(one) for one in runs.values()) == [1] * 5


def test_an_exporter_is_made_where_its_runs_are() -> None:
    with pytest.raises(RuntimeError):
        Exporter("http://localhost:4318", MemoryJournal())
