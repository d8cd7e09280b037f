"""`teamwright serve` as a process, and the tokens of its programs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from teamwright.cli.main import main
from teamwright.install_command import install_command
from teamwright.server import app, credentials
from teamwright.server.routes import page
from tests.kit.program import Program
from tests.kit.server import PATIENCE
from tests.kit.terminal import TEAM, write_team

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def test_the_printed_address_opens_one_session_which_is_listed_and_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_team(tmp_path / "duo", TEAM)
    process = Program("serve", tmp_path, "--port", "0", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["url"]
        base, _, code = address.partition("/?code=")
        with httpx2.Client(base_url=base, timeout=PATIENCE) as browser:
            assert browser.get("/api/teams").status_code == 401
            begun = browser.post("/api/session", json={"code": code}).json()
            assert (begun["name"], begun["role"]) == ("owner", "admin")
            browser.headers["Authorization"] = f"Bearer {begun['session']}"
            assert [one["id"] for one in browser.get("/api/teams").json()] == ["duo"]
            assert httpx2.post(f"{base}/api/session", json={"code": code}).status_code == 401
            assert main(["serve", "tokens", "--json"]) == 0
            (listed,) = json.loads(capsys.readouterr().out)
            assert (listed["name"], listed["role"], browser.get("/api/teams").status_code) == ("owner", "admin", 200)
            assert main(["serve", "tokens", listed["session"], "--remove"]) == 0
            assert capsys.readouterr().err == "1 session ended.\n"
            assert browser.get("/api/teams").status_code == 401
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("built", "said"),
    [(True, "Open this address in a browser; it works once, within 4 minutes."), (False, "has no page")],
)
def test_the_start_says_how_to_open_the_page_or_that_there_is_none(
    built: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def start(_: app.ServerSettings, started: Callable[[str], None]) -> None:
        started("http://127.0.0.1:8420/?code=c")

    if built:
        (tmp_path / "index.html").touch()
    monkeypatch.setattr(page, "static_folder", lambda: tmp_path)
    monkeypatch.setattr(app, "serve", start)
    monkeypatch.setattr(credentials, "CODE_SECONDS", 240.0)
    assert main(["serve", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "Teamwright serves on http://127.0.0.1:8420/?code=c\n"
    assert said in printed.err
    assert ("make page" in printed.err, "Open this address" in printed.err) == (not built, built)


def test_tokens_are_made_listed_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "tokens", "ann", "--role", "run", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["name"], made["role"], made["token"][:3]) == ("ann", "run", "tw_")
    assert main(["serve", "tokens", "ann", "--role", "read"]) == 2
    assert main(["serve", "tokens", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "ann", "role": "run"}]
    assert main(["serve", "tokens", "ann", "--remove"]) == 0
    assert main(["serve", "tokens", "ann", "--remove"]) == 2


@pytest.mark.parametrize("arguments", [["ann"], ["--remove"], ["--role", "run"], ["ann", "--role", "run", "--remove"]])
def test_a_token_is_either_made_or_revoked_by_its_name(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "tokens", *arguments]) == 2
    assert "NAME --remove revokes it" in capsys.readouterr().err


def test_tokens_belong_to_the_journal_that_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--journal", str(tmp_path / "own" / "journal.db")]
    assert main(["serve", "tokens", "ann", "--role", "read", *own]) == 0
    assert main(["serve", "tokens", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2]) == []
    assert main(["serve", "tokens", "--json", *own]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "ann", "role": "read"}]
    assert (tmp_path / "own" / "server-tokens.json").exists()


def test_without_the_extra_one_line_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "teamwright.server.app", raising=False)
    assert main(["serve", "--port", "0"]) == 2
    assert install_command("server") in capsys.readouterr().err
