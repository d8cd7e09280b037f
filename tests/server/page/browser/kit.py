"""What browser tests need: a server in a process of its own, teams with scripted replies, and exported runs."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from playwright.sync_api import Page, expect

from teamwright.server.credentials import Tokens, tokens_file
from tests.kit.program import Program
from tests.paths import ROOT
from tools.run_page import JOURNAL, address_of

Result = TypeVar("Result")
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = """\
<script>window.hacked = 1</script><img src="https://evil.test/a.png" onerror="window.hacked = 2">
![pixel](https://evil.test/pixel.png) [press](javascript:window.hacked=3) [home](/api/session)
[plain](https://example.test/page) **bold** <iframe src="https://evil.test"></iframe>

| a | b |
|:-:|--:|
| <svg onload="window.hacked = 4"> | `code` |
"""
HUGE = "All work and no play makes a long message. " * 24_400
"""A message of about one megabyte."""

MANIFESTS = {
    "talk": """
agents:
  researcher: {model: scripted:replies.yaml, description: Finds out what is known}
  critic: {model: scripted:replies.yaml, description: Says what is wrong}
  writer: {model: scripted:replies.yaml, description: Writes it down}
teams:
  talk: {members: [researcher, critic, writer], description: Three who talk about a text, limits: {tokens: 50000}}
""",
    "slow": """
agents:
  speaker: {model: scripted:replies.yaml}
  closer: {model: scripted:replies.yaml}
teams:
  slow: {members: [speaker, closer], description: Somebody who speaks slowly}
""",
    "busy": """
agents:
  speaker: {model: scripted:replies.yaml}
  closer: {model: scripted:replies.yaml}
teams:
  busy: {members: [speaker, closer], description: Somebody who is not done before a test is over}
""",
    "approval": """
agents:
  herald: {model: scripted:replies.yaml, confirm: {after: true}, description: Tells the world}
teams:
  approval: {members: [herald], description: Announces what a person has approved}
""",
    "hostile": """
agents:
  attacker: {model: scripted:replies.yaml}
teams:
  hostile: {members: [attacker]}
""",
    "huge": """
agents:
  talker: {model: scripted:replies.yaml}
teams:
  huge: {members: [talker]}
""",
    "broken": "agents: {writer: {model: scripted:nowhere.yaml}}\nteams: {broken: {members: [nobody]}}\n",
}
Replies = Mapping[str, Sequence[Mapping[str, Any]]]
REPLIES: Replies = {
    "talk": [
        {"agent": "researcher", "reply": "## What is known\n\nWater boils at **100 °C** at sea level."},
        {"agent": "critic", "reply": "That holds at sea level only."},
        {"agent": "writer", "reply": "Water boils at 100 °C at sea level, and at less on a mountain."},
    ],
    "slow": [
        {"agent": "speaker", "reply": "A slow reply grows word by word. " * 40, "delay": 9},
        {"agent": "closer", "reply": "That was all."},
    ],
    "busy": [{"agent": "speaker", "reply": "A reply that never ends. " * 400, "delay": 600}],
    "approval": [{"agent": "herald", "reply": "The new timetable starts on Monday."}],
    "hostile": [{"agent": "attacker", "reply": HOSTILE}],
    "huge": [{"agent": "talker", "reply": HUGE}],
    "broken": [],
}


REPORT = """
agents:
  chief: {model: scripted:replies.yaml, description: Leads}
  reader: {model: scripted:replies.yaml, description: Reads it}
  writer: {model: scripted:replies.yaml, description: Writes it}
teams:
  report:
    members: [reader, writer]
    limits: {tokens: 50000}
    strategy: collaborate
    collaborate:
      lead: chief
      steps:
        - {id: reading, name: Read the report, agent: reader, task: Read it.}
        - {id: writing, name: Write the summary, agent: writer, needs: [reading], task: Write it.}
"""
"""A team with a plan, which tests edit."""
REPORT_REPLIES = [
    {"agent": "reader", "reply": "It is read."},
    {"agent": "writer", "reply": "It is written."},
    {"agent": "chief", "reply": "Here it is."},
]


def complete(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread of its own: playwright has the loop of this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def write_teams(folder: Path, manifests: Mapping[str, str] = MANIFESTS, replies: Replies = REPLIES) -> Path:
    """Write teams into a folder, each in a folder of its own."""
    for name, manifest in manifests.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "team.yaml").write_text(manifest, encoding="utf-8")
        (folder / name / "replies.yaml").write_text(json.dumps(replies[name]), encoding="utf-8")
    return folder


class PageServer:
    """`teamwright serve` in a process of its own; it can be killed and started again over the same record."""

    def __init__(self, teams: Path, home: Path, *more: Path) -> None:
        self._folders, self._home = (teams, *more), home
        self._process: Program | None = None
        self._token = ""
        self.port = 0
        self.address = ""
        """The address to open; it works once."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server, at the same port as before."""
        arguments = ("serve", *self._folders, "--port", self.port, "--json")
        environment = {**os.environ, "TEAMWRIGHT_HOME": str(self._home)}
        self._process = Program(
            *arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            self.address = address_of(self._process)
        except BaseException:
            self.kill()
            raise
        self.port = int(self.address.split(":")[2].split("/")[0])

    def kill(self) -> None:
        """Kill the server as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def cpu_seconds(self) -> float:
        """The CPU time that the process has used so far."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sign_in(self, page: Page) -> None:
        """Open the page with the code of the printed address."""
        page.goto(self.address)
        page.get_by_role("heading", name="Runs", exact=True).wait_for()

    @property
    def tokens(self) -> Tokens:
        """The tokens of this server."""
        return Tokens(tokens_file(self._home / JOURNAL))

    def runs(self) -> list[str]:
        """The ids of the runs in the record."""
        with sqlite3.connect(f"file:{self._home / JOURNAL}?mode=ro", uri=True) as database:
            return [row[0] for row in database.execute("SELECT id FROM runs")]

    def sign_out(self, page: Page) -> None:
        """Let the page lose its session."""
        page.evaluate("localStorage.removeItem('teamwright.session')")

    def open(self, page: Page, *parts: str) -> None:
        """Open a page by its address."""
        page.goto(f"{self.url}/#/{'/'.join(parts)}")

    def start_run(self, page: Page, team: str, task: str = "Do your work.", **more: object) -> str:
        """Start a run, and return its id."""
        body = {"team": team, "task": task, **more}
        self._token = self._token or self.tokens.create("kit", "run")
        headers = {"Authorization": f"Bearer {self._token}"}
        response = page.request.post(f"{self.url}/api/runs", data=body, headers=headers)
        assert response.ok, response.text()
        return str(response.json()["run_id"])

    def run_elsewhere(self, team: str, run_id: str) -> None:
        """Run a team with the command line over the same record, until it ends or pauses."""
        arguments = (
            "run",
            self._folders[0] / team / "team.yaml",
            "Do your work.",
            "--run-id",
            run_id,
            "--no-input",
            "--quiet",
        )
        environment = {**os.environ, "TEAMWRIGHT_HOME": str(self._home)}
        Program(*arguments, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()

    def show_run(self, page: Page, team: str, task: str = "Do your work.", view: str = "conversation") -> str:
        """Start a run and open it, and return its id."""
        run_id = self.start_run(page, team, task)
        self.open(page, "runs", run_id, view)
        return run_id


VIOLATIONS = """\
async rules => {
    const found = await axe.run({resultTypes: ["violations"], ...(rules && {runOnly: rules})});
    return found.violations.flatMap(
        one => one.nodes.map(node => `${one.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""


def violations(page: Page, *rules: str) -> list[str]:
    """All that axe-core finds, also the minor, or what breaks these rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate(VIOLATIONS, list(rules) or None)
    return found


def violations_in_both_themes(page: Page) -> list[str]:
    """All that axe-core finds in the light theme, and in the dark one what it changes: nothing but colours."""
    found = violations(page)
    show_theme(page, "dark")
    found += violations(page, "color-contrast")
    show_theme(page, "light")
    return found


def show_theme(page: Page, theme: Literal["light", "dark"]) -> None:
    """Let the system of the reader change its theme, and wait for the page to follow."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
