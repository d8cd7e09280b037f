"""Runs every example in README.md and docs/, and compares its output with the page.

The blocks of a page run offline and in order, in one temporary folder. Ids, times and clocks are masked, and a line `…`
matches any number of lines.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from teamwright.cli.main import main
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands
from tests.kit.postgres import schema_url

EVERY = [block for page in PAGES for block in blocks(page)]
SKIPPED = [block for block in EVERY if block.mark == "skip"]
OUTSIDE = re.compile(r"^(make|pip|git|uv|sudo|export)\b")
"""Commands that change more than the page's folder; a page must mark them as skipped."""
SLOW = ("many-machines.md", "testing.md")
"""Pages that start many processes, which takes long on a busy machine."""

MASKS = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?"), "WHEN"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "CLOCK"),
    (re.compile(r"(?<![\w.])\d+\.\d+ (s|ms|kB|MB|GB)\b"), r"N \1"),
    (re.compile(r'"(seconds|time)": [\d.e-]+'), r'"\1": N'),
    (re.compile(r"run resumed by \S+"), "run resumed by DRIVER"),
    (re.compile(r"\b(\w+):\d+:[0-9a-f]{8}\b"), r"\1:WORKER"),
    (re.compile(r"\bready +\d+ of \d+ +\d+ "), "ready BUSY "),
    (re.compile(r"\b\d+ open runs?"), "OPEN"),
    (re.compile(r"[ \t]+"), " "),
)


USAGE_ERROR = 2


class Printed(NamedTuple):
    """What a command printed on both streams, and its exit code."""

    text: str
    code: int


def masked(text: str) -> list[str]:
    """Return the lines with the parts masked that differ between runs."""
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def fits(shown: str, printed: str) -> bool:
    """Return whether the output matches the page; a line `…` matches any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line) + r"\n" for line in masked(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in masked(printed))) is not None


def compare(block: Block, what: str, shown: str, printed: str) -> None:
    assert fits(shown, printed), f"{block.name}: {what}\n--- the page shows\n{shown}\n--- it prints\n{printed}"


def run_python(block: Block) -> None:
    """Run a Python block as a program."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text, block.name, "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102
    if block.shown is not None or printed.getvalue():
        compare(block, "what the program prints", block.shown or "", printed.getvalue())


def in_shell(line: str) -> Printed:
    """Run a command in a shell and return both streams; a killed process adds `Killed`, as in a terminal."""
    try:
        done = subprocess.run(
            ["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
        )
    except subprocess.TimeoutExpired:
        logs = "".join(f"--- {log}\n{log.read_text(encoding='utf-8')}" for log in sorted(Path().glob("*.log")))
        pytest.fail(f"{line} takes longer than 60 s\n{logs}")
    return Printed(done.stdout + ("Killed\n" if done.returncode in {-9, 137} else ""), done.returncode)


def in_process(line: str) -> Printed:
    """Run `teamwright` in this process, which takes a tenth of the time, and return its output."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(shlex.split(line)[1:])
    return Printed(printed.getvalue(), code)


def run_console(block: Block) -> None:
    """Run each command of a console block."""
    for command in commands(block):
        assert not OUTSIDE.match(command.line), f"{block.name}: mark this block with  <!-- skip: why -->"
        plain = command.line.startswith("teamwright ") and not re.search(r"[|;&<>$`]", command.line)
        printed = in_process(command.line) if plain and block.mark != "shell" else in_shell(command.line)
        compare(block, f"$ {command.line}", command.shown, printed.text)
        hidden = printed.code == USAGE_ERROR and command.shown.strip().endswith("…")
        assert not hidden, f"{block.name}: $ {command.line}\nis refused, and the page does not show it:\n{printed.text}"


def change_environment(block: Block, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Set and unset the variables of a block; in place of another Postgres server, use that of the tests."""
    for command in commands(block):
        verb, _, variable = command.line.partition(" ")
        name, _, value = variable.partition("=")
        if value.startswith("postgresql:"):
            value = schema_url(request.getfixturevalue("postgres_server"), Path.cwd())
        assert verb in {"export", "unset"}, f"{block.name}: {verb}"
        monkeypatch.setenv(name, value) if verb == "export" else monkeypatch.delenv(name)


def run(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Write, run, parse or skip a block, depending on its mark and language."""
    match block.mark, block.language:
        case "skip" | "side", _:
            return
        case "environment", _:
            change_environment(block, monkeypatch, request)
        case "file", _:
            file = folder / block.about
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        case _, "python":
            run_python(block)
        case _, "console" if block.text.startswith("$ python examples/model_agents/"):
            return  # `test_model_examples` runs each by itself, within a time of its own
        case _, "console":
            run_console(block)
        case _, "yaml":
            list(yaml.safe_load_all(block.text))
        case _:
            return


def end_workers(folder: Path) -> None:
    """Kill the processes that a page has started and not ended: it removes the file with their id when it ends them."""
    for file in folder.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.timeout(180)] if page.name in SLOW else []) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    (folder / "examples").symlink_to(ROOT / "examples")
    known = set(sys.modules)
    try:
        for block in blocks(page):
            run(block, folder, monkeypatch, request)
    finally:
        end_workers(folder)
        for name in set(sys.modules) - known:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@pytest.mark.parametrize("block", SKIPPED, ids=lambda block: block.name)
def test_an_example_that_is_not_run_says_why_and_is_well_formed(block: Block) -> None:
    assert block.about, f"{block.name}: say why it is skipped"
    if block.language == "python":
        compile(block.text, block.name, "exec", dont_inherit=True)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))
    pytest.skip(block.about)


def test_every_link_to_a_file_or_heading_leads_there() -> None:
    broken: list[str] = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            path, _, heading = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (heading and heading not in headings(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub derives from the headings of a page."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_every_decision_has_a_number_of_its_own_which_its_heading_has_too() -> None:
    pages = [one for one in PAGES if one.parent.name == "decisions"]
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers) > 50
    others = [
        page.name for page in pages if not page.read_text(encoding="utf-8").startswith(f"# {int(page.name[:4])}. ")
    ]
    assert not others


def test_a_page_that_shows_something_else_is_found() -> None:
    assert fits("a\n…\nd 0.1 s\n", "a\nb\nc\nd 12.3 s\n")
    assert not fits("a\n", "a\nb\n")
    assert not fits("a\n…\nd\n", "a\nb\n")
