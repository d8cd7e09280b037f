"""Builds the distributions into `dist/`, and tries them as a user would: `python -m tools.dist build|check`.

The check works in an empty environment in a folder outside of the clone: the sdist builds the same wheel without Node,
the wheel alone runs a team that is killed and resumed, each extra can be imported, and the page is served.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

from tools import page, venv

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PATIENCE = 120.0
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*==[^\s;\\]+)", re.MULTILINE)
IMPORTED = {
    "models": "pydantic_ai.models.openai",
    "anthropic": "pydantic_ai.models.anthropic",
    "google": "pydantic_ai.models.google",
    "azure": "pydantic_ai.providers.azure",
    "bedrock": "pydantic_ai.models.bedrock",
    "ollama": "pydantic_ai.providers.ollama",
    "groq": "pydantic_ai.models.groq",
    "mistral": "pydantic_ai.models.mistral",
    "mcp": "mcp, teamwright.agents.tools.mcp_source",
    "a2a": "a2a.types",
    "otlp": "opentelemetry.proto.collector.trace.v1.trace_service_pb2, teamwright.history.telemetry.otlp",
    "local": "xllamacpp, teamwright.agents.clients.local_model",
    "lab": "teamwright.lab.topology_report",
    "experts": "teamwright.experts.ask_command",
    "sandbox": "teamwright.agents.sandbox_back_ends",
    "tokens": "bpe_openai, teamwright.agents.tokenizers",
    "server": "uvicorn, teamwright.server.app",
    "postgres": "psycopg_pool, teamwright.journal.postgres.journal",
    "cluster": "dbos, redis, teamwright.cluster.worker",
}
"""What each extra is for: modules that can't be imported without it."""
UNLOCKED = ("bedrock", "groq", "mistral")
"""Extras that the suite does without, so that no lock has them; they get the newest versions that fit together."""
TEAM = """\
agents:
  first: {function: "members:first"}
  second: {function: "members:second"}
teams:
  pair: {members: [first, second]}
"""
MEMBERS = """\
import time
from pathlib import Path


def first(task):
    with Path("asked").open("a") as file:
        file.write("x")
    return "one"


def second(task):
    if not Path("go").exists():
        Path("waits").touch()
        time.sleep(600)
    return "two"
"""


def build(folder: Path) -> tuple[Path, Path]:
    """Build the page, the sdist and the wheel; return the paths of the two."""
    page.build()
    _hatch(ROOT, "sdist", folder)
    _hatch(ROOT, "wheel", folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def _hatch(source: Path, target: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}  # so that two builds are equal
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)


def differences(sdist: Path, wheel: Path, folder: Path) -> list[str]:
    """Build a wheel from an unpacked sdist, and return the names of files that it has otherwise than this wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    _hatch(source, "wheel", folder / "wheel")
    (other,) = (folder / "wheel").glob("*.whl")
    ours, theirs = _contents(wheel), _contents(other)
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def try_run(programs: Path, folder: Path) -> None:
    """Run a team with the program in this folder of programs, kill it in the middle, and resume it."""
    folder.mkdir()
    (folder / "team.yaml").write_text(TEAM)
    (folder / "members.py").write_text(MEMBERS)
    run = _start(programs, folder, "run", "team.yaml", "Go.", "--run-id", "tried")
    try:
        _wait_for(folder / "waits", run)
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    (folder / "go").touch()
    resumed = _start(programs, folder, "runs", "resume", "tried", "--json")
    said, problem = resumed.communicate(timeout=PATIENCE)
    if resumed.returncode or json.loads(said)["output"] != "two" or (folder / "asked").read_text() != "x":
        raise SystemExit(f"The run was not resumed as it was: {said}{problem}")


def try_page(programs: Path, folder: Path) -> None:
    """Start the server with the program in this folder of programs, and fetch its page with what it refers to."""
    with _served(programs, folder) as address:
        with urlopen(f"{address}/", timeout=PATIENCE) as answer:
            text = answer.read().decode()
        assets = re.findall(r'(?:src|href)="\./([^"]+\.(?:js|css))"', text)
        if not assets:
            raise SystemExit(f"The page refers to no script: {text[:500]}")
        for asset in assets:
            with urlopen(f"{address}/{asset}", timeout=PATIENCE) as answer:
                answer.read()


@contextmanager
def _served(programs: Path, folder: Path) -> Generator[str]:
    server = _start(programs, folder, "serve", ".", "--port", "0", "--json")
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"The server did not start: {server.communicate()[1]}")
        address = re.match(r"https?://[^/\"]+", str(json.loads(line)["url"]))
        assert address is not None
        yield address[0]
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)


def _start(programs: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TEAMWRIGHT"))}
    environment = {**kept, "TEAMWRIGHT_HOME": str(folder / "home")}
    pipe = subprocess.PIPE
    command = [str(programs / "teamwright"), *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def _wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"The run did not come to its second member: {process.communicate()[1]}")
        time.sleep(0.05)


def pins(folder: Path) -> Path:
    """Write the versions that were tested as constraints without hashes, and return the file."""
    found = PIN.findall((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8"))
    file = folder / "constraints.txt"
    file.write_text("\n".join(found) + "\n", encoding="utf-8")
    return file


def check(sdist: Path, wheel: Path, extras: Mapping[str, str]) -> None:
    """Try the distributions in a folder outside of the clone; raises `SystemExit` for what does not work."""
    with tempfile.TemporaryDirectory(prefix="teamwright-dist-") as name:
        folder = Path(name)
        if different := differences(sdist, wheel, folder / "sdist"):
            raise SystemExit(f"The sdist builds another wheel: {', '.join(different[:5])}")
        print("the sdist builds the same wheel")
        environment, constraints = folder / "environment", pins(folder)
        with (folder / "pip.log").open("w", encoding="utf-8") as log:
            venv.create(environment, log)
        programs = environment / "bin"
        _install(environment, constraints, str(wheel))
        try_run(programs, folder / "tried")
        print("the wheel alone: run, killed, resumed")
        if "server" in extras:
            _install(environment, constraints, f"{wheel}[server]")
            try_page(programs, folder / "tried")
            print("the page is served")
        for extra, modules in sorted(extras.items(), key=lambda one: one[0] in UNLOCKED):
            _install(environment, None if extra in UNLOCKED else constraints, f"{wheel}[{extra}]")
            _call(programs / "python", "-c", f"import {modules}", cwd=folder)
            print(f"the extra {extra}: {modules}")


def _install(environment: Path, constraints: Path | None, what: str) -> None:
    pinned = () if constraints is None else ("--constraint", str(constraints))
    flags = ("-qq", "--disable-pip-version-check", "--no-input", *pinned)
    subprocess.run([*venv.pip_of(environment), "install", *flags, what], cwd=environment, check=True)


def _call(program: Path, *arguments: str, cwd: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([program, "-W", "ignore", *arguments], cwd=cwd, env=kept, check=True)


def declared_extras() -> set[str]:
    """Return the extras that `pyproject.toml` declares, without that of all others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"]) - {"all"}


def main() -> int:
    """Build the distributions, or build and check them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "check"))
    parser.add_argument("--extra", action="append", choices=sorted(IMPORTED), help="check only these extras")
    options = parser.parse_args()
    for old in (*DIST.glob("teamwright-*.whl"), *DIST.glob("teamwright-*.tar.gz")):
        old.unlink()
    sdist, wheel = build(DIST)
    print(f"dist/{sdist.name} and dist/{wheel.name}")
    if options.what == "check":
        chosen = options.extra or IMPORTED
        try:
            check(sdist, wheel, {name: modules for name, modules in IMPORTED.items() if name in chosen})
        except subprocess.CalledProcessError as error:
            print(f"the command above failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
