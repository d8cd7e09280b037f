from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from teamwright.agents.functions.imports import modules_of
from teamwright.errors import AgentError
from teamwright.experts.rubric import SHOWN_BYTES, run_command
from tests.kit.effects import is_gone, wait_until

PYTHON = sys.executable


async def test_a_program_gets_the_text_and_its_exit_code_counts() -> None:
    code, output = await run_command((PYTHON, "-c", "import sys; print(sys.stdin.read()); sys.exit(3)"), "a text é")
    assert (code, output) == (3, "a text é")


async def test_a_program_that_does_not_read_gets_no_error() -> None:
    assert await run_command((PYTHON, "-c", "pass"), "x" * 1_000_000) == (0, "")


async def test_only_the_end_of_long_output_is_kept() -> None:
    _, output = await run_command((PYTHON, "-c", "print('x' * 100_000 + 'end')"), "")
    assert output.endswith("end")
    assert len(output) <= SHOWN_BYTES


async def test_a_program_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-secret")
    _, output = await run_command((PYTHON, "-c", "import os; print(sorted(os.environ))"), "")
    assert "OPENAI_API_KEY" not in output


async def test_a_program_works_in_a_folder_of_its_own_that_is_deleted() -> None:
    program = "import os; open('left.txt', 'w').close(); print(os.getcwd(), sorted(os.listdir('.')))"
    _, output = await run_command((PYTHON, "-c", program), "")
    folder, _, files = output.partition(" ")
    assert (files, Path(folder).exists()) == ("['context.json', 'left.txt']", False)


async def test_no_shell_reads_the_arguments() -> None:
    _, output = await run_command((PYTHON, "-c", "import sys; print(sys.argv[1])", "$HOME; ls *"), "")
    assert output == "$HOME; ls *"


async def test_a_relative_path_leads_to_the_program_from_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "check"
    program.write_text("#!/bin/sh\nexit 4\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert await run_command(("./check",), "") == (4, "")


async def test_a_program_and_paths_that_begin_with_a_dot_are_beside_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = tmp_path / "team"
    (team / "bin").mkdir(parents=True)
    (team / "bin" / "check").write_text('#!/bin/sh\nexec sh "$1"\n')
    (team / "bin" / "check").chmod(0o755)
    (team / "rules.sh").write_text("exit 4\n")
    (tmp_path / "shared.sh").write_text("exit 5\n")
    monkeypatch.chdir("/")
    with modules_of(team):
        assert await run_command(("bin/check", "./rules.sh"), "") == (4, "")
        assert await run_command(("sh", "../shared.sh"), "") == (5, "")
        assert await run_command(("echo", "rules.sh", "-./x", "..."), "") == (0, "rules.sh -./x ...")
        with pytest.raises(AgentError, match=r"'bin/other' can't be started: there is no file '.*/team/bin/other'"):
            await run_command(("bin/other",), "")


async def test_a_program_that_can_not_be_started_is_an_error() -> None:
    with pytest.raises(AgentError, match="'no-such-program' can't be started"):
        await run_command(("no-such-program",), "")


async def test_a_cancelled_program_and_its_children_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = "import time; time.sleep(60)"
    program = (
        f"import os, subprocess, sys, time; one = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f" open({str(pids)!r} + '.new', 'w').write(f'{{os.getpid()}} {{one.pid}}');"
        f" os.rename({str(pids)!r} + '.new', {str(pids)!r}); time.sleep(60)"
    )
    task = asyncio.ensure_future(run_command((PYTHON, "-c", program), ""))
    while not pids.exists():  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pid in map(int, pids.read_text().split()):
        await wait_until(partial(is_gone, pid))


async def test_a_program_that_prints_without_end_is_killed_before_it_fills_the_disk() -> None:
    with pytest.raises(AgentError, match="the program 'yes' printed more than 16 MiB"):
        await run_command(("yes",), "text")
