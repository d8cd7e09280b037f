"""Secrets never reach the record, the bus or another member."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Message, Outcome, Reply, Task, Team, Turn, load_team
from teamwright.errors import AgentError
from teamwright.runtime.redaction import HIDDEN, Pieces, Redactor, environment_secrets, whole_characters
from teamwright.strategies.protocol import Members
from teamwright.values.events import Custom, Delta
from teamwright.values.people import Answer, Question
from tests.runtime.teams import Written, says

SECRET = "hush-7f3a-very-secret"


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    return SECRET


@pytest.mark.parametrize(
    "text",
    [
        "sk-abcdefghijklmnop1234", "ghp_abcdefghijklmnopqrst1234", "AKIAABCDEFGHIJKLMNOP", "xoxb-1234567890-abc",
        "AIza" + "x" * 35,
    ],
)  # fmt: skip
def test_keys_are_known_by_their_shape(text: str) -> None:
    assert Redactor().text(f"use {text}, please") == f"use {HIDDEN}, please"


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("Authorization: Bearer abcdef0123456789xyz", "Authorization: "),
        ("authorization: Bearer short1", "authorization: "),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: "),
        ("curl -H 'Authorization: Token abc123'", "curl -H 'Authorization: "),
        ("x-api-key: abc123", "x-api-key: "),
        ("bearer abcdef0123456789xyz", "bearer "),
    ],
)
def test_authorization_headers_are_taken_out(header: str, kept: str) -> None:
    clean = Redactor().text(header)
    assert clean.startswith(kept + HIDDEN)
    assert "abc" not in clean
    assert "short1" not in clean
    assert "dXN" not in clean


def test_headers_in_structured_data_are_taken_out() -> None:
    headers = {"Authorization": "anything", "X-Api-Key": "abc", "accept": "text", "api_key": None}
    assert Redactor().value({"headers": [dict(headers)]}) == {
        "headers": [{"Authorization": HIDDEN, "X-Api-Key": HIDDEN, "accept": "text", "api_key": None}]
    }


@pytest.mark.parametrize("text", ["ask-and-answer", "task-oriented", "the bearer of news", "risk-free", "key: value"])
def test_plain_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


def test_known_secrets_go_wherever_they_stand() -> None:
    redactor = Redactor(["hunter22", "hunter22-and-more", "a.b*c(d"])
    assert redactor.text("a hunter22-and-more b hunter22 c a.b*c(d") == f"a {HIDDEN} b {HIDDEN} c {HIDDEN}"
    assert redactor.value({"hunter22": ["hunter22", 5, None, True]}) == {HIDDEN: [HIDDEN, 5, None, True]}


@pytest.mark.parametrize(
    "text",
    [
        "take hunter22, then go", "take hunter22", "use sk-abcdefghijklmnop1234 now",
        "a (ghp_abcdefghijklmnopqrst1234) b",
        "Authorization: Bearer abcdef0123456789xyz and on", "authorization: Basic dXNlcjpwYXNz", "x-api-key: abc123 ok",
        "the bearer abcdef0123456789xyz came", "nothing to hide\n\nat all", "密码是hunter22。",
    ],
)  # fmt: skip
def test_a_secret_that_comes_in_pieces_is_never_shown(text: str) -> None:
    redactor = Redactor(["hunter22"])

    def shown(pieces: Sequence[str]) -> str:
        coming = Pieces(redactor)
        return "".join(coming.take(piece)[0] for piece in pieces) + coming.rest()

    for at in range(len(text) + 1):
        assert shown([text[:at], text[at:]]) == redactor.text(text)
    assert shown(list(text)) == redactor.text(text)


def test_pieces_of_words_wait_for_their_end_but_other_scripts_and_endless_words_do_not() -> None:
    coming = Pieces(Redactor())
    assert [coming.take(piece) for piece in ("Wor", "ds and", " mo")] == [("", 0), ("Words ", 6), ("and ", 4)]
    assert coming.rest() == "mo"
    assert coming.rest() == ""
    assert coming.take("日本語") == ("日本語", 3)
    assert coming.take("x" * 1000)[1] == 1000


def test_very_short_values_are_no_secrets() -> None:
    assert Redactor(["a", "on"]).text("a button on") == "a button on"


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
    monkeypatch.setenv(name, "value-of-it")
    assert "value-of-it" in environment_secrets()


def test_other_environment_variables_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYBOARD", "qwertz-layout")
    assert "qwertz-layout" not in environment_secrets()


def test_half_a_character_is_mended_and_whole_ones_stay() -> None:
    assert whole_characters("a\ud800b") == "a\ufffdb"
    assert whole_characters("\ud83d\ude00") == "😀"
    assert whole_characters("größe 漢字 😀 \x00") == "größe 漢字 😀 \x00"


async def tell_everything(turn: Turn, ctx: Context) -> Reply:
    """Every door through which an agent can let a secret out."""
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
    return says(f"{SECRET} it is")


async def test_a_secret_is_nowhere_in_the_journal_nor_on_the_bus(secret: str, tmp_path: Path) -> None:
    members = [FunctionAgent("a", whisper), FunctionAgent("b", tell_everything), FunctionAgent("c", blurt)]
    team = Team("t", members=members, strategy=Written(ask_around))
    heard: list[str] = []
    async with Engine(tmp_path / "j.db") as engine:
        with engine.bus.listening(lambda item: heard.append(str(item))):
            history = [Message(name="user", content=secret, role="user")]
            paused = await engine.run(team, f"use {secret}", run_id="r", history=history)
            assert paused.status == "paused"
            await engine.answer("r", "t/q", Answer(text=f"yes {secret}", data=[secret]))
            result = await engine.resume("r", team=team)
            await (await engine.start_fork("r", team=team, task=f"now {secret}", new_id="f")).result()
    assert secret not in str(result)
    assert secret not in "".join(heard)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            # The answer lies in the inbox as it was sent until the run takes it in.
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
        result = await engine.result("r")
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
        assert (await engine.result("r")).messages == result.messages
    assert [message.content for message in result.messages] == [
        '{"half":"of\ufffd a pair","task":"go \ufffd"}',
        "\ufffd",
    ]


@pytest.mark.parametrize("text", ["", "\x00\x01\x1b[31m\x7f", "größe 漢字 😀", "\u2028\u202e", "a\r\nb"])
async def test_any_text_survives_the_journal(tmp_path: Path, text: str) -> None:
    async def echo(turn: Turn) -> str:
        return turn.task

    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(FunctionAgent("a", echo), text, run_id="r")
        with anyio.fail_after(5):
            assert (await engine.result("r")).output == result.output == text
