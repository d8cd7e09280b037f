"""Ctrl-C while the program loads shows no traceback, and warnings of libraries are not shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.cli.entry import take_passwords
from tests.agents.raw_server import DONE, STREAM, RawServer, says
from tests.kit.terminal import TEAM, write_team

PROGRAM = "import sys; sys.path.insert(0, {folder!r}); from teamwright.cli.entry import main; sys.exit(main())"


def load(folder: Path, stops: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Load the program where importing Typer does what `stops` says."""
    (folder / "typer.py").write_text(stops)
    program = before + PROGRAM.format(folder=str(folder))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_while_the_program_loads_is_exit_code_130_without_a_word(tmp_path: Path) -> None:
    done = load(tmp_path, "import signal\nsignal.raise_signal(signal.SIGINT)\n")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_ignored_sigint_stays_ignored(tmp_path: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    done = load(tmp_path, "import signal\nsignal.raise_signal(signal.SIGINT)\nraise SystemExit(7)\n", ignoring)
    assert done.returncode == 7


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_in_the_middle_of_an_import_is_exit_code_130_too(tmp_path: Path) -> None:
    agents = "exec('import signal; signal.raise_signal(signal.SIGINT); 1')\n"
    (tmp_path / "agents.py").write_text(f"{agents}def one(text: str) -> str:\n    return text\n")
    (tmp_path / "team.yaml").write_text("agents: {a: {function: agents:one}}\n")
    command = [sys.executable, "-m", "teamwright", "lab", "simulate", "team.yaml", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


VANISHING = """
import signal, sys
class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
class Hook:
    def find_spec(self, name, *_):
        if name == {module!r}:
            Finalized()
sys.meta_path.insert(0, Hook())
sys.argv[1:] = {arguments!r}
from teamwright.cli.entry import main
sys.exit(main())
"""
"""Python prints and forgets what is raised in a finalizer, so an interrupt that is raised there vanishes."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "module",
    ["teamwright.cli.foreground_run", "anyio", "teamwright.runtime.engine", "teamwright.agents.functions.agent"],
)
def test_ctrl_c_is_never_lost_before_a_run_is_driven(module: str, tmp_path: Path) -> None:
    worked = tmp_path / "worked"
    (tmp_path / "own.py").write_text(f"def work(task):\n    open({str(worked)!r}, 'w').close()\n    return 'done'\n")
    manifest = tmp_path / "team.yaml"
    manifest.write_text("agents: {a: {function: 'own:work'}}\nteams: {t: {members: [a]}}\n")
    program = VANISHING.format(module=module, arguments=["run", str(manifest), "Go."])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, worked.exists()) == (130, "", False), done.stderr


def test_the_program_begins_at_its_entry() -> None:
    import tomllib

    declared = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["scripts"] == {"teamwright": "teamwright.cli.entry:main"}
    done = subprocess.run(
        [sys.executable, "-m", "teamwright.cli.entry", "--version"],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout.startswith("teamwright ")


def run_on(body: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a team whose model server answers with this body."""
    manifest = folder / "team.json.yaml"
    with RawServer(body) as server:
        agent = {"model": {"url": server.url, "name": "raw"}}
        manifest.write_text(json.dumps({"agents": {"a": agent}, "teams": {"t": {"members": ["a"]}}}))
        return subprocess.run(
            [sys.executable, "-m", "teamwright.cli.entry", "run", str(manifest), "Go.", "--quiet"],
            env={**os.environ, "TEAMWRIGHT_HOME": str(folder / "home")},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )


def test_what_a_library_warns_of_is_not_shown(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 10**30, "completion_tokens": -5, "total_tokens": 10**30}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "raw", "choices": [], "usage": usage}
    body = STREAM + says("Hello.", "stop") + b"data: " + json.dumps(chunk).encode() + b"\n\n" + DONE
    done = run_on(body, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\n", "")


def test_the_package_runs_as_the_program() -> None:
    program = [sys.executable, "-m", "teamwright"]
    shown = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=50, check=True).stdout
    assert shown.startswith("Usage: teamwright [OPTIONS] COMMAND")
    failed = subprocess.run([*program, "runs", "nothing"], capture_output=True, text=True, timeout=50, check=False)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr


ADDRESS = "redis://:pa55word-1234@127.0.0.1:9"


@pytest.mark.parametrize(
    ("given", "kept", "moved"),
    [
        (["runs", "list", "--journal", ADDRESS], ["runs", "list"], {"TEAMWRIGHT_JOURNAL": ADDRESS}),
        ([f"--journal={ADDRESS}", "runs"], ["runs"], {"TEAMWRIGHT_JOURNAL": ADDRESS}),
        (
            ["--journal", "postgresql://h/d?password=x", "x"],
            ["x"],
            {"TEAMWRIGHT_JOURNAL": "postgresql://h/d?password=x"},
        ),
        (["--journal", "postgresql://h/d", "x"], ["--journal", "postgresql://h/d", "x"], {}),
        (["run", "--", "--journal", ADDRESS], ["run", "--", "--journal", ADDRESS], {}),
        (["run", "--journal"], ["run", "--journal"], {}),
        *(
            pytest.param(given, kept, moved, marks=pytest.mark.cluster)
            for given, kept, moved in (
                (["runs", "list", "--redis", ADDRESS], ["runs", "list"], {"TEAMWRIGHT_REDIS": ADDRESS}),
                ([f"--redis={ADDRESS}", "runs"], ["runs"], {"TEAMWRIGHT_REDIS": ADDRESS}),
                (["run", "--", "--redis", ADDRESS], ["run", "--", "--redis", ADDRESS], {}),
                (["run", "--redis"], ["run", "--redis"], {}),
            )
        ),
    ],
)
def test_addresses_with_passwords_move_to_the_environment(
    given: list[str], kept: list[str], moved: dict[str, str]
) -> None:
    assert take_passwords(given) == (kept, moved)


@pytest.mark.cluster
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads the list of processes from /proc")
def test_a_password_does_not_stay_in_the_list_of_processes(tmp_path: Path) -> None:
    team = write_team(tmp_path / "slow", TEAM, "rules: [{agent: writer, delay: 30, reply: x}]")
    command = [sys.executable, "-m", "teamwright", "run", str(team), "Go", "--redis", ADDRESS, "--run-id", "one"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            process.stderr.readline()  # it has started
            listed = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert "pa55word" not in listed
            assert listed.split("\0")[1:-1] == ["-m", "teamwright", "run", str(team), "Go", "--run-id", "one"]
            assert f"TEAMWRIGHT_REDIS={ADDRESS}" in Path(f"/proc/{process.pid}/environ").read_text().split("\0")
        finally:
            process.kill()
