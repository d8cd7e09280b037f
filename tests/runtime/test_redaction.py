"""Secrets never reach the record, the bus or another member."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright import Context, Engine, FunctionAgent, Message, Reply, Team, Turn, load_team
from teamwright.errors import AgentError
from teamwright.runtime.redaction import (
    HIDDEN,
    RedactedStream,
    Redactor,
    environment_secrets,
    replace_lone_surrogates,
)
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.event import Delta
from teamwright.values.events.run import Custom
from teamwright.values.people import Answer, Question
from teamwright.values.text.secrets import is_maskable, known_forms
from tests.growth import assert_linear, assert_linear_calls
from tests.kit.strategies import FunctionStrategy, outcome

SECRET = "hush-7f3a-very-secret"


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    return SECRET


LOOK_ALIKES = ["sk-abcdefghijklmnop1234", "Authorization: Bearer abcdef0123456789xyz", "postgres://bob:hunter2@db/x"]
LONG = "hunter22-long-enough"


@pytest.mark.parametrize("text", [*LOOK_ALIKES, "Upgrade postgres", "key: value"])
def test_what_only_looks_like_a_secret_is_delivered_as_it_is(text: str) -> None:
    assert Redactor([LONG]).text(text) == text
    assert Redactor().value({"Authorization": text}) == {"Authorization": text}


def test_known_secrets_go_wherever_they_stand() -> None:
    redactor = Redactor([LONG, f"{LONG}-and-more", "a.b*c(d)e[f]g"])
    assert redactor.text(f"a {LONG}-and-more b {LONG} c a.b*c(d)e[f]g") == f"a {HIDDEN} b {HIDDEN} c {HIDDEN}"
    assert redactor.value({LONG: [LONG, 5, None, True]}) == {HIDDEN: [HIDDEN, 5, None, True]}


def test_of_secrets_that_hold_or_overlap_each_other_nothing_is_left_in_binary_content() -> None:
    redactor = Redactor({"key-0123456789", "key-0123456789-more-of-it", "of-it-größe-42"})
    found = redactor.content(b"\xff\x00key-0123456789-more-of-it-gr\xc3\xb6\xc3\x9fe-42\xfe key-0123456789")
    assert found == b"\xff\x00[redacted]\xfe [redacted]"
    assert redactor.content(b"\xff plain") == b"\xff plain"


def test_secrets_that_overlap_are_masked_together_and_repeated_ones_one_by_one() -> None:
    redactor = Redactor(["abcdef123456", "123456ghijkl"])
    assert redactor.text("<abcdef123456ghijkl>") == f"<{HIDDEN}>"
    assert redactor.text("abcdef123456" * 3) == HIDDEN * 3
    assert Redactor(["a1" * 8]).text("x" + "a1" * 13 + "y") == f"x{HIDDEN}y"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("Bearer abcdef-0123456", "use abcdef-0123456"),
        ("Basic dXNlcjpzM2NyZXQtcGFzc3dvcmQ=", "the password is s3cret-password"),
        ("session=abcdef-0123456; Path=/", "cookie abcdef-0123456"),
        ("postgres://bob:s3cr%40t-p4ssword@db/x", "it is s3cr@t-p4ssword"),
        ("https://x.example/?token=abcdef-0123456", "token abcdef-0123456"),
        ('a"quoted\\secret\nof lines', json.dumps({"k": 'a"quoted\\secret\nof lines'})),
        ("größe-und-1234", json.dumps("größe-und-1234")),
        ("with/slash+plus=1234", "https://x.example/?k=with%2Fslash%2Bplus%3D1234"),
    ],
)
def test_a_secret_is_found_in_every_form_it_takes(secret: str, text: str) -> None:
    masked = Redactor([secret]).text(text)
    assert HIDDEN in masked
    assert not any(form in masked for form in known_forms(secret))


@pytest.mark.parametrize(
    "secret", ["postgres", "a", "on", "short-1", "onlyletters", "OnlyLettersButLong", "elevenchars"]
)
def test_values_that_are_short_or_plain_words_are_not_masked(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # S-06
    monkeypatch.setenv("POSTGRES_PASSWORD", secret)
    assert Redactor([secret]).text(f"Upgrade {secret}") == f"Upgrade {secret}"


secrets_drawn = st.text("ab1-", min_size=12, max_size=20).filter(is_maskable)


def shown(redactor: Redactor, pieces: Sequence[str]) -> str:
    coming = RedactedStream(redactor)
    return "".join(coming.feed(piece)[0] for piece in pieces) + coming.finish()


@given(
    st.lists(secrets_drawn, min_size=1, max_size=3).flatmap(
        lambda known: st.tuples(
            st.just(known),
            st.lists(st.one_of(st.sampled_from(known), st.text("ab1- 密", max_size=6)), max_size=8).map("".join),
        )
    ),
    st.lists(st.integers(1, 15), max_size=30),
)
def test_a_stream_shows_what_the_whole_text_would(drawn: tuple[list[str], str], sizes: list[int]) -> None:
    known, text = drawn
    redactor = Redactor(known)
    whole = redactor.text(text)
    assert not any(secret in whole for secret in known)
    pieces: list[str] = []
    rest = text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert shown(redactor, [*pieces, rest]) == whole
    assert shown(redactor, list(text)) == whole


def test_a_stream_waits_only_where_a_secret_may_have_begun() -> None:
    coming = RedactedStream(Redactor([LONG]))
    assert [coming.feed(piece) for piece in ("Words", " and hun", "ters", " of ", LONG, "!")] == [
        ("Words", 5), (" and ", 5), ("hunters", 7), (" of ", 4), (HIDDEN, len(LONG)), ("!", 1),
    ]  # fmt: skip
    assert coming.feed("日本語 hunter") == ("日本語 ", 4)
    assert coming.finish() == "hunter"
    assert coming.finish() == ""


# S-01
PERIODIC = "a1" * 40
NEARLY = "a" * 60 + "1"
HOSTILE: dict[str, Callable[[int], str]] = {
    "one long word": lambda size: "x" * size,
    "blanks": lambda size: " " * size,
    "words": lambda size: "bearer token word " * (size // 18),
    "beginnings of a secret": lambda size: (NEARLY[:-1] + "2") * (size // 61),
    "one letter of a secret": lambda size: "a" * size,
    "a periodic secret": lambda size: "a1" * (size // 2),
    "secrets": lambda size: NEARLY * (size // 61),
    "ideographs": lambda size: "語" * size,
    "headers": lambda size: "authorization: bearer " * (size // 22),
}


@pytest.fixture
def hostile_redactor() -> Redactor:
    return Redactor([PERIODIC, NEARLY, *(f"secret-number-{number:06d}" for number in range(20))])


@pytest.mark.parametrize("kind", HOSTILE)
def test_masking_a_text_takes_time_in_proportion_to_it(kind: str, hostile_redactor: Redactor) -> None:
    assert_linear(hostile_redactor.text, prepare=HOSTILE[kind], size=60_000)


@pytest.mark.parametrize("kind", HOSTILE)
def test_masking_a_stream_in_one_delta_takes_time_in_proportion_to_it(kind: str, hostile_redactor: Redactor) -> None:
    assert_linear(lambda text: shown(hostile_redactor, [text]), prepare=HOSTILE[kind], size=60_000)


@pytest.mark.parametrize("kind", HOSTILE)
def test_masking_a_stream_in_many_deltas_takes_time_in_proportion_to_it(kind: str, hostile_redactor: Redactor) -> None:
    def pieces(size: int) -> list[str]:
        text = HOSTILE[kind](size)
        return [text[at : at + 3] for at in range(0, len(text), 3)]

    assert_linear(lambda given: shown(hostile_redactor, given), prepare=pieces, size=2_000)


def test_masking_takes_time_in_proportion_to_the_number_of_secrets() -> None:
    def known(count: int) -> Redactor:
        return Redactor([f"secret-number-{number:06d}" for number in range(count)])

    text = "secret-number-and nothing else " * 300
    assert_linear(lambda redactor: redactor.text(text), prepare=known, size=50)


def test_masking_takes_time_in_proportion_to_the_length_of_a_secret() -> None:
    def long(size: int) -> tuple[Redactor, str]:
        return Redactor(["1" * size + "a"]), "1" * 3 * size

    assert_linear(lambda given: (given[0].text(given[1]), shown(given[0], [given[1]])), prepare=long, size=2_000)


def test_masking_nested_data_takes_time_in_proportion_to_it(hostile_redactor: Redactor) -> None:
    assert_linear_calls(
        hostile_redactor.value, prepare=lambda size: {f"k{index}": [NEARLY, {"a": "b"}] for index in range(size)}
    )


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "CLIENT_SECRET",
        "SECRET_KEY",
        "my_apikey",
    ],
)
def test_environment_variables_are_secrets_by_their_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "value-of-it-2")
    assert "value-of-it-2" in environment_secrets()


def test_other_environment_variables_are_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEYBOARD", "qwertz-layout")
    assert "qwertz-layout" not in environment_secrets()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    assert str(tmp_path) not in environment_secrets()


def test_half_a_character_is_fixed_and_whole_ones_stay() -> None:
    assert replace_lone_surrogates("a\ud800b") == "a\ufffdb"
    assert replace_lone_surrogates("\ud83d\ude00") == "😀"
    assert replace_lone_surrogates("größe 漢字 😀 \x00") == "größe 漢字 😀 \x00"


async def tell_everything(turn: Turn, ctx: Context) -> Reply:
    """Every way in which an agent can leak a secret."""
    await ctx.emit(Custom(domain="d", name="n", data={"k": [SECRET]}))
    return Reply(messages=(Message(name="b", content=SECRET),), data={"s": SECRET}, warnings=(SECRET,))


async def whisper(turn: Turn) -> str:
    assert SECRET not in turn.prompt
    return f"psst {SECRET}"


async def blurt(turn: Turn) -> str:
    raise AgentError(f"could not log in with {SECRET}")


async def ask_around(task: Task, members: Members, ctx: Context) -> Outcome:
    for member in members:
        await ctx.ask(member, Turn(task.text, number=1), key=member.name)
    answer = await ctx.ask_person(Question(text=f"is {SECRET} right?"), key="q")
    assert SECRET not in answer.text
    return outcome(f"{SECRET} it is")


async def test_a_secret_is_nowhere_in_the_journal_nor_on_the_bus(secret: str, tmp_path: Path) -> None:
    members = [FunctionAgent("a", whisper), FunctionAgent("b", tell_everything), FunctionAgent("c", blurt)]
    team = Team("t", members=members, strategy=FunctionStrategy(ask_around))
    heard: list[str] = []
    async with Engine(tmp_path / "j.db") as engine:
        with engine.bus.listening(lambda item: heard.append(str(item))):
            history = [Message(name="user", content=secret, role="user")]
            paused = await engine.run(team, f"use {secret}", run_id="r", history=history)
            assert paused.status == "paused"
            await engine.runs.answer("r", "t/q", Answer(text=f"yes {secret}", data=[secret]))
            result = await engine.resume("r", team=team)
            await (await engine.start_fork("r", team=team, task=f"now {secret}", new_id="f")).result()
    assert secret not in str(result)
    assert secret not in "".join(heard)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            # The inbox holds the answer as sent until the run records it.
            assert secret.encode() not in file.read_bytes() or "inbox" in _tables_with(file, secret), file


def _tables_with(file: Path, secret: str) -> set[str]:
    with closing(sqlite3.connect(file)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name for name in names if secret in str(database.execute(f"SELECT * FROM {name}").fetchall())}


async def test_a_secret_of_a_manifest_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", SECRET)
    (tmp_path / "replies.yaml").write_text(f"- reply: the host is {SECRET}")
    (tmp_path / "team.yaml").write_text(
        "agents: {a: {model: main}}\nteams: {t: {members: [a]}}\nmodels: {main: 'scripted:replies.yaml', "
        "other: {url: 'http://127.0.0.1:1/v1', name: n, api_key: '${SHOP_URL}'}}"
    )
    team = load_team(tmp_path / "team.yaml")
    async with Engine(tmp_path / "j.db") as engine:
        seen = [item async for item in engine.stream(team, f"where is {SECRET}?", run_id="r")]
        result = await engine.runs.result("r")
    assert result.output == f"the host is {HIDDEN}"
    assert SECRET not in "".join(item.text if isinstance(item, Delta) else str(item) for item in seen)
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.glob("j.db*"))


async def test_a_lone_surrogate_does_not_break_the_journal(tmp_path: Path) -> None:
    async def odd(turn: Turn) -> dict[str, str]:
        return {"half": "of\udfff a pair", "task": turn.task}

    async def bare(turn: Turn, ctx: Context) -> str:
        await ctx.emit(Custom(domain="d", name="n", data="\ud800"))
        return "\udcff"

    async def broken(turn: Turn) -> str:
        raise AgentError("\ud800")

    members = [FunctionAgent("a", odd), FunctionAgent("b", bare), FunctionAgent("c", broken)]
    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(Team("t", members=members), "go \udcff", run_id="r")
        assert result.status == "failed"
        assert (await engine.runs.result("r")).messages == result.messages
    assert [message.content for message in result.messages] == [
        '{"half":"of\ufffd a pair","task":"go \ufffd"}',
        "\ufffd",
    ]


@pytest.mark.parametrize("text", [".", "\x00\x01\x1b[31m\x7f", "größe 漢字 😀", "a\u2028\u202e", "a\r\nb"])
async def test_any_text_survives_the_journal(tmp_path: Path, text: str) -> None:
    async def echo(turn: Turn) -> str:
        return turn.task

    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(FunctionAgent("a", echo), text, run_id="r")
        with anyio.fail_after(5):
            assert (await engine.runs.result("r")).output == result.output == text


def test_connection_strings_of_the_environment_are_known_by_their_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_JOURNAL", "postgresql://ann:pa55word-1234@db.example/runs")
    monkeypatch.setenv("SHOP_CACHE", "redis://:0ther-5678-9@cache.example:6379")
    redactor = Redactor()
    said = redactor.text("at postgresql://ann:pa55word-1234@db.example/runs, with pa55word-1234 and 0ther-5678-9")
    assert said == "at [redacted], with [redacted] and [redacted]"
    monkeypatch.setenv("TEAMWRIGHT_JOURNAL", "postgresql://db.example/runs")
    assert "db.example" in Redactor().text("at postgresql://db.example/runs")
