from __future__ import annotations

import stat
from pathlib import Path

import pytest

from teamwright.server.credentials import (
    CODE_SECONDS,
    MOST_SESSIONS,
    SESSION_SECONDS,
    Sessions,
    Tokens,
    Visitor,
)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


def test_a_code_is_traded_once_and_soon(tokens: Tokens) -> None:
    now = 0.0
    sessions = Sessions(tokens, lambda: now)
    ann = Visitor("ann", "admin")
    code, late = sessions.new_code(ann), sessions.new_code(ann)
    session = sessions.trade(code)
    assert session is not None
    assert (sessions.visitor(session), sessions.trade(code), sessions.trade("")) == (ann, None, None)
    now = CODE_SECONDS + 1
    assert sessions.trade(late) is None
    now = SESSION_SECONDS + 1
    assert sessions.visitor(session) is None


def test_a_session_ends_when_it_is_told_to(tokens: Tokens) -> None:
    sessions = Sessions(tokens)
    session = sessions.trade(sessions.new_code(Visitor("ann", "read")))
    assert session is not None
    sessions.end(session)
    assert sessions.visitor(session) is None


def test_a_session_survives_a_restart_as_a_hash(tmp_path: Path, tokens: Tokens) -> None:
    file = tmp_path / "sessions.json"
    before = Sessions(tokens, file=file)
    kept, ended = (before.trade(before.new_code(Visitor(name, "run"))) for name in ("ann", "bob"))
    assert kept is not None
    assert ended is not None
    before.end(ended)
    assert kept not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    after = Sessions(tokens, file=file)
    assert (after.visitor(kept), after.visitor(ended)) == (Visitor("ann", "run"), None)
    file.write_text("[broken")
    assert Sessions(tokens, file=file).visitor(kept) is None
    file.write_text('[["digest", "ann", "run", 9e9]]')  # as an earlier version stored it
    assert Sessions(tokens, file=file).visitor(kept) is None


def test_a_session_that_began_with_a_token_has_its_role_and_ends_with_it(tmp_path: Path, tokens: Tokens) -> None:
    file, token = tmp_path / "sessions.json", tokens.create("ann", "answer")
    sessions = Sessions(tokens, file=file)
    session = sessions.sign_in(token)
    assert session is not None
    assert sessions.visitor(session) == Visitor("ann", "answer")
    assert token not in file.read_text()
    tokens.delete("ann")
    tokens.create("ann", "admin")  # another token of the same name
    assert Sessions(tokens, file=file).visitor(session) is None
    assert sessions.visitor(session) is None
    assert sessions.sign_in(token) is None


def test_a_session_that_began_with_a_token_ends_after_some_hours(tokens: Tokens) -> None:
    now = 0.0
    sessions = Sessions(tokens, lambda: now)
    session = sessions.sign_in(tokens.create("ann", "read"))
    assert session is not None
    now = SESSION_SECONDS + 1
    assert sessions.visitor(session) is None


def test_who_signs_in_too_often_loses_the_oldest_session(tokens: Tokens) -> None:
    sessions, token = Sessions(tokens), tokens.create("ann", "read")
    other = sessions.sign_in(tokens.create("bob", "read"))
    begun = [sessions.sign_in(token) or "" for _ in range(MOST_SESSIONS + 2)]
    assert [sessions.visitor(one) is not None for one in begun] == [False] * 2 + [True] * MOST_SESSIONS
    assert sessions.visitor(other or "") == Visitor("bob", "read")


def test_sessions_are_listed_and_ended_also_by_another_process(tmp_path: Path, tokens: Tokens) -> None:
    file = tmp_path / "sessions.json"
    server, command = Sessions(tokens, file=file), Sessions(tokens, file=file)
    ann, other = (server.sign_in(tokens.create(name, "read")) or "" for name in ("ann", "bob"))
    second = server.trade(server.new_code(Visitor("owner", "admin"))) or ""
    assert [(one.name, one.role) for one in command.all()] == [("ann", "read"), ("bob", "read"), ("owner", "admin")]
    assert not [one for one in command.all() if one.id in ann + other + second]
    assert command.end_named("owner") == 1
    assert command.end_named(command.all()[0].id) == 1
    assert command.end_named("nobody") == 0
    assert [server.visitor(one) is not None for one in (ann, other, second)] == [False, True, False]
    later = server.sign_in(tokens.create("cleo", "run")) or ""
    assert [command.visitor(one) is not None for one in (ann, other, second, later)] == [False, True, False, True]
