from __future__ import annotations

import stat
from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.server.security.tokens import CODE_SECONDS, SESSION_SECONDS, Sessions, Tokens, Visitor


def test_a_token_is_shown_once_and_stored_as_a_hash(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "deep" / "tokens.json")
    token = tokens.create("ann", "answer")
    assert tokens.visitor(token) == Visitor("ann", "answer")
    assert token not in (tmp_path / "deep" / "tokens.json").read_text()
    assert stat.S_IMODE((tmp_path / "deep" / "tokens.json").stat().st_mode) == 0o600
    assert tokens.visitor("tw_other") is None
    assert tokens.visitor("") is None


def test_a_deleted_token_opens_nothing(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    token, other = tokens.create("ann", "read"), tokens.create("bob", "run")
    assert (tokens.delete("ann"), tokens.delete("ann")) == (True, False)
    assert (tokens.visitor(token), tokens.visitor(other)) == (None, Visitor("bob", "run"))


def test_names_are_given_once_and_roles_are_known(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.create("ann", "read")
    with pytest.raises(UsageError, match="'ann' already"):
        tokens.create("ann", "run")
    with pytest.raises(UsageError, match="did you mean 'admin'"):
        tokens.create("bob", "admn")


def test_a_role_may_do_what_those_before_it_may() -> None:
    assert Visitor("a", "run").may("answer")
    assert not Visitor("a", "answer").may("run")


def test_a_code_is_traded_once_and_soon() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    ann = Visitor("ann", "admin")
    code, late = sessions.new_code(ann), sessions.new_code(ann)
    session = sessions.trade(code)
    assert session is not None
    assert (sessions.visitor(session), sessions.trade(code), sessions.trade("")) == (ann, None, None)
    now = CODE_SECONDS + 1
    assert sessions.trade(late) is None
    now = SESSION_SECONDS + 1
    assert sessions.visitor(session) is None


def test_a_session_ends_when_it_is_told_to() -> None:
    sessions = Sessions()
    session = sessions.trade(sessions.new_code(Visitor("ann", "read")))
    assert session is not None
    sessions.end(session)
    assert sessions.visitor(session) is None


def test_a_session_survives_a_restart_as_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    before = Sessions(file=file)
    kept, ended = (before.trade(before.new_code(Visitor(name, "run"))) for name in ("ann", "bob"))
    assert kept is not None
    assert ended is not None
    before.end(ended)
    assert kept not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    after = Sessions(file=file)
    assert (after.visitor(kept), after.visitor(ended)) == (Visitor("ann", "run"), None)
    file.write_text("[broken")
    assert Sessions(file=file).visitor(kept) is None
