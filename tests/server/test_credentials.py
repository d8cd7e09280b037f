from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.server.credentials import Allowance, Tokens, Visitor


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
    with pytest.raises(UsageError, match="who starts the server"):
        tokens.create("owner", "read")


def test_a_role_may_do_what_those_before_it_may() -> None:
    assert Visitor("a", "run").may("answer")
    assert not Visitor("a", "answer").may("run")


def test_a_token_keeps_what_its_runs_may_spend(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    allowance = Allowance(usd=0.5, tokens=2000, budget="acme")
    token = tokens.create("ann", "run", allowance)
    assert Tokens(tmp_path / "tokens.json").visitor(token) == Visitor("ann", "run", allowance)
    assert allowance.ceiling == {"usd": 0.5, "tokens": 2000}


def test_a_token_that_an_earlier_version_stored_bounds_nothing(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    token = tokens.create("ann", "run")
    stored = json.loads((tmp_path / "tokens.json").read_text())
    del stored[0]["allowance"]
    (tmp_path / "tokens.json").write_text(json.dumps(stored))
    assert tokens.visitor(token) == Visitor("ann", "run")
