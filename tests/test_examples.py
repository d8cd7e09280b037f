"""Every example runs offline unchanged, and ends as its page says."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import textwrap
from pathlib import Path

import pytest
import yaml

from teamwright import Engine, ModelAgent, Team, load_team
from teamwright.agents.sandbox_back_ends import sandbox_problem
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.location import data_folder
from teamwright.runtime.recorded.reader import read_record
from teamwright.runtime.working_trees.apply import RecordedBranch
from teamwright.strategies import Envelope
from teamwright.values.events.agent import AgentReplied, AgentReturned, WorkspaceRefused
from teamwright.values.events.team import StepHeldUp, TeamEscalated, TeamEvaluationResult
from teamwright.values.people import Answer
from teamwright.values.specs.tools import SandboxSettings
from tests.kit.records import cut
from tests.paths import EXAMPLES
from tests.profiles import sampled

REFACTORING = ["code-analyzer", "refactoring-planner", "code-generator", "test-generator", "validator"]
TRANSFORMATION = [
    "code-analyzer", "dependency-analyzer", "security-scanner", "transformation-planner", "code-generator",
    "test-generator", "code-reviewer", "validator",
]  # fmt: skip

YARD = ["surveyor", "carpenter", "surveyor", "carpenter", "purser", "foreman"]
COMPLAINTS = ["triage", "baker", "writer", "editor", "writer", "editor", "post"]
CONTRACT = ["worker-protocol", "worker-scheduler", "worker-scheduler", "lead"]
CODE_REVIEW = ["security", "performance", "architecture", "testing", "style", "testing", "lead"]


@pytest.mark.parametrize(
    ("name", "stop_reason", "speakers", "last_words"),
    [
        ("sequential", "done", ["reporter", "analyst", "writer"], "warned a day ahead."),
        ("round_robin", "terminated", ["author", "critic", "chair"] * 2, "loses nothing."),
        ("selector", "terminated", YARD, "costs 960."),
        ("graph", "done", COMPLAINTS, "the one after that too."),
        ("fan_out", "done", ["translator"] * 3 + ["typesetter"], "el viernes por reparaciones."),
        ("dag", "done", ["forecaster", "groundskeeper", "tentmaker", "mayor"], "carried in by hand."),
        ("refactoring", "done", REFACTORING, "the sum has a test."),
        ("hierarchical", "done", ["weather", "engineer", "tides", "harbour_master"], "while there is water."),
        ("reactive", "done", ["watchman", "window", "gardener", "diarist"], "so I watered by hand."),
        ("code_review", "done", CODE_REVIEW, "== []"),
        ("transformation", "done", TRANSFORMATION, "the change of the nightly job."),
        ("a2a_lite", "done", CONTRACT, "and not before."),
        ("single", "done", ["baker"] * 4, "we are paid for."),
        ("lead_subagent", "done", ["reporter"] * 3 + ["editor"], "twenty minutes a day."),
        ("star_team", "done", ["electrician", "plumber", "tiler", "tiler", "foreman"], "where the valve is."),
        ("expert_team", "done", ["engineer", "hydrologist", "editor"], "the flood of 2013."),
        ("mesh_team", "done", ["gardener", "cook", "cellarer", "cook", "cellarer", "host"], "white from the lake."),
    ],
)
async def test_an_example_prints_what_it_promises(
    name: str, stop_reason: str, speakers: list[str], last_words: str
) -> None:
    folder = EXAMPLES / name
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text())
    assert (result.status, result.stop_reason) == ("completed", stop_reason)
    assert [message.name for message in result.messages] == speakers
    assert result.output is not None
    assert result.output.strip().endswith(last_words)


async def test_a_plan_is_worked_through_and_its_steps_write_only_what_they_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # Z-05, Z-09
    """Two steps share one file, and the second reads what the first wrote; a write outside its paths is refused."""
    monkeypatch.chdir(tmp_path)
    folder = EXAMPLES / "plan"
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text(), run_id="plan")
        events = (await engine.runs.history("plan")).events
    assert (result.status, result.stop_reason) == ("completed", "done")
    written = sorted(one.name for one in (tmp_path / "planner").iterdir())
    assert written == ["batches.py", "budgets.py", "graph.py", "handoffs.py", "order.py", "reports.py"]
    assert (tmp_path / "planner" / "order.py").read_text() == "def order(tasks): ...\n"
    reports = (tmp_path / "planner" / "reports.py").read_text()
    assert reports == "def check(plan, tasks): ...\n\n\ndef figures(plan): ...\n"
    held_up = [(one.fact.step, one.fact.by) for one in events if isinstance(one.fact, StepHeldUp)]
    assert held_up == [("figures", ("check",))]


async def test_the_improvement_network_fixes_what_it_can_and_says_what_it_cannot() -> None:
    folder = EXAMPLES / "improvement"
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text())
    assert (result.status, result.stop_reason) == ("completed", "done")
    assert sorted({message.name for message in result.messages}) == [
        "auto-fixer", "code-watcher", "intake", "mentor", "on-call", "reporter", "tester",
    ]  # fmt: skip
    assert [message.name for message in result.messages].count("auto-fixer") == 2
    assert result.data == {"last_analysis": {"file": "shop/search.py", "issues": 2}, "pending_fixes": 0}
    assert result.output is not None
    assert result.output.endswith("for its owner to decide.")


@pytest.mark.parametrize(
    ("files", "speakers", "stop_reason"),
    [
        (["sequential"], ["inquiry-router", "account-helper", "loan-advisor"], "done"),
        (["round_robin"], ["agent-a", "agent-b", "agent-c"] * 3, "max_turns"),
        (["selector"], ["researcher", "analyst", "writer"], "terminated"),
        (["graph"], ["researcher", "analyzer", "reviewer", "writer"], "done"),
        (["nested", "graph"], ["graph-team", "graph-team", "graph-team", "graph-team", "agent-c"], "done"),
    ],
)
async def test_the_ark_samples_run_unchanged_with_agents_from_a_second_file(
    files: list[str], speakers: list[str], stop_reason: str
) -> None:
    ark = EXAMPLES / "ark"
    paths = [ark / f"{name}.yaml" for name in [*files, "agents"]]
    team = load_team(*paths, team=f"{files[0].replace('_', '')}-team", model=f"scripted:{ark / 'replies.yaml'}")
    assert not team.warnings
    async with Engine("memory") as engine:
        result = await engine.run(team, "What shall we call the new reading room?")
    assert (result.status, result.stop_reason) == ("completed", stop_reason)
    assert [message.name for message in result.messages] == speakers


async def test_the_banking_demo_runs_unchanged() -> None:
    bank = EXAMPLES / "ark" / "banking"
    team = load_team(bank / "team.yaml", bank / "agents.yaml", model=f"scripted:{bank / 'replies.yaml'}")
    async with Engine("memory") as engine:
        result = await engine.run(team, "What's my account balance and what loans do you offer?")
    assert [message.name for message in result.messages] == ["inquiry-router", "account-helper", "loan-advisor"]
    assert result.status == "completed"


async def test_workers_hand_over_envelopes_and_risky_replies_go_to_the_lead() -> None:
    folder, journal = EXAMPLES / "a2a_lite", MemoryJournal()  # Z-01, Z-03
    async with Engine(journal) as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text(), run_id="r")
    events = await journal.read("r")
    contract = Envelope.model_validate_json((EXAMPLES / "plan" / "envelope.json").read_text())
    note = next(e.fact.envelope_note for e in events if isinstance(e.fact, AgentReplied) and e.fact.envelope_note)
    for name in ("status", "confidence", "risk_level", "summary", "artifacts", "needs", "next_action"):
        assert getattr(note, name) == getattr(contract, name)
    assert [(e.fact.member, e.fact.to) for e in events if isinstance(e.fact, TeamEscalated)] == [
        ("worker-scheduler", "lead")
    ]
    assert all("```envelope" not in message.content for message in result.messages)
    assert result.usage.tool_calls == 1


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_an_example_is_read_by_every_reader_of_yaml(file: Path) -> None:
    assert list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def test_the_first_team_is_made_for_the_embedded_model() -> None:
    """A tiny model does well at short answers under a schema; it may say that a letter names no room."""
    team = load_team(EXAMPLES / "first_team")
    assert team.spec.limits is not None
    (clerk,) = [one for one in team.everyone() if isinstance(one, ModelAgent)]
    assert clerk.spec.output_schema is not None
    assert '["integer", "null"]' in json.dumps(clerk.spec.output_schema)
    assert (clerk.spec.settings, (clerk.spec.max_tokens or 99) <= 60) == ({"temperature": 0}, True)


PROGRAMS = sorted((EXAMPLES / "python").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_python_example_prints_what_it_says(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    docstring = runpy.run_path(str(program), run_name="__main__")["__doc__"]
    assert capsys.readouterr().out == textwrap.dedent(docstring.partition("It prints:\n\n")[2])


async def test_a_repository_is_annotated_five_files_at_a_time_and_one_file_that_fails_affects_no_other() -> (
    None
):  # P-04
    folder = EXAMPLES / "annotation"
    team = load_team(folder)
    async with Engine("memory") as engine:
        result = await engine.run(team, (folder / "task.txt").read_text())
    assert team.settings.options["max_parallel"] == 5
    assert (result.status, result.stop_reason) == ("degraded", "done")
    assert [message.name for message in result.messages] == ["type-inference"] * 6 + ["type-aggregator"]
    assert [warning.split(":")[1] for warning in result.warnings] == [" chunk-5"]
    assert result.output is not None
    assert result.output.endswith("# not annotated: legacy.py")


@pytest.mark.parametrize(
    ("answers", "speakers", "last_words"),
    [
        (
            {
                "tool-1/confirm": Answer.edit({"version": "2.4.0", "where": "north-hall"}, by="Ada"),
                "confirm-after": Answer.edit("The machine in the north hall sells group tickets from today."),
            },
            {"operator": "the others still have 2.3.7."},
            "from today.",
        ),
        (
            {"tool-1/confirm": Answer.reject("not before the weekend", by="Ada"), "confirm-after": Answer.approve()},
            {"operator": "it was not agreed to."},
            "Nothing changes today.",
        ),
    ],
)
async def test_a_release_waits_for_approval_before_it_deploys_and_before_it_announces(
    answers: dict[str, Answer],
    speakers: dict[str, str],
    last_words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # P-12
    folder = EXAMPLES / "approvals"
    monkeypatch.syspath_prepend(str(folder))
    async with Engine(tmp_path / "journal.db") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text(), run_id="release")
    for ending, answer in answers.items():
        assert (result.status, result.stop_reason) == ("paused", "approval")
        async with Engine(tmp_path / "journal.db") as engine:  # the next day, in another process
            (key,) = (await engine.runs.history("release")).questions()
            assert key.endswith(ending)
            await engine.runs.answer("release", key, answer)
            result = await engine.resume("release")
    assert (result.status, [message.name for message in result.messages]) == (
        "completed",
        ["planner", "operator", "herald"],
    )
    said = {message.name: message.content for message in result.messages}
    assert all(said[name].endswith(words) for name, words in speakers.items())
    assert (result.output or "").endswith(last_words)


async def test_release_notes_pass_a_review_in_the_third_round_and_have_the_marks_of_the_final_judge() -> None:  # K-10
    folder = EXAMPLES / "rubric"
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text(), run_id="notes")
        events = (await engine.runs.history("notes")).events
    assert (result.status, result.warnings) == ("completed", ())
    assert (result.output or "").startswith("**Before you upgrade:** --keep counts days")
    verdicts = [event.fact for event in events if isinstance(event.fact, TeamEvaluationResult)]
    assert [(one.member, one.verdict.outcome) for one in verdicts] == [
        ("collector", "revise"), ("collector", "pass"), ("writer", "revise"), ("writer", "revise"), ("writer", "pass"),
    ]  # fmt: skip
    last = verdicts[-1].verdict
    assert [(one.member, one.scores, one.spread) for one in last.judges] == [
        ("critic", (0.96, 0.7, 0.92), 0.26), ("chief", (0.82, 0.82, 0.82), 0.0),
    ]  # fmt: skip
    assert {one.id: (one.score, one.by) for one in last.criteria}["steps"] == (0.7, "chief")


async def test_a_purse_for_twenty_pays_for_twenty_of_sixty_four() -> None:  # Z-10
    folder = EXAMPLES / "budget"
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text())
    assert (result.status, result.stop_reason, result.exit_code) == ("degraded", "budget", 4)
    assert (len(result.messages), result.usage.usd) == (20, 0.0044)
    assert isinstance(result.data, list)
    assert [answer is not None for answer in result.data] == [True] * 20 + [False] * 44
    assert result.warnings[0].startswith("44 of 64 parts were not afforded (chunk-21, chunk-22, ")


def coding_team(manifest: Path) -> Team:
    return load_team(manifest, allow_roots=[manifest.parent.parent / "shop"])


async def same_files_wherever_killed(manifest: Path, journal: MemoryJournal, *, kills: int) -> None:
    """Cut the run short at as many places, and resume each: the branch ends with the same files, in three commits."""
    events = await journal.read("r")
    whole = RecordedBranch(journal, await read_record(journal, "r"))
    tree = await (await whole.open()).tree_of(whole.branch.tip())
    for at in range(2, len(events), sampled(len(events) // kills, 1)):
        copy = await cut(journal, at)
        async with Engine(copy) as engine:
            assert (await engine.resume("r", team=coding_team(manifest))).status == "completed"
        again = RecordedBranch(copy, await read_record(copy, "r"))
        assert await (await again.open()).tree_of(again.branch.tip()) == tree, f"killed after event {at}"
        assert len(again.branch.chain()) == 3


async def run_coding_team(manifest: Path) -> tuple[MemoryJournal, list[tuple[str, str, list[str]]]]:
    """Run a team of the example to its end; returns its journal, and the changes that were refused."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(coding_team(manifest), "Make the tests of this shop pass.", run_id="r")
    assert (result.status, result.output) == ("completed", "The receipt shows two decimals, and all tests pass.")
    refused = [event.fact for event in await journal.read("r") if isinstance(event.fact, WorkspaceRefused)]
    return journal, [(one.member, one.reason, [file.path for file in one.files]) for one in refused]


@pytest.mark.experts
async def test_a_team_that_writes_code_ends_with_passing_tests_wherever_it_is_killed() -> None:
    manifest = EXAMPLES / "coding_team" / "team.yaml"
    journal, refused = await run_coding_team(manifest)
    [(second, *refusal)] = refused
    assert second in ("prices", "taxes")
    assert refusal == ["conflict", ["CHANGES.md"]]
    await same_files_wherever_killed(manifest, journal, kills=6)


def copy_with_sandbox(backend: str, folder: Path) -> Path:
    """The team of the example that has an intruder, with this sandbox."""
    shutil.copytree(EXAMPLES / "coding_team", folder / "copy")
    manifest = folder / "copy" / "intruder" / "team.yaml"
    text = manifest.read_text()
    assert "sandbox: auto" in text
    manifest.write_text(text.replace("sandbox: auto", f"sandbox: {backend}"))
    return manifest


async def attempts(journal: MemoryJournal) -> list[tuple[str, str]]:
    """What the intruder's commands have tried, and how each attempt ended."""
    events = [event for event in await journal.read("r") if isinstance(event.fact, AgentReturned)]
    async with Engine(journal) as engine:
        texts = [str(await engine.texts(event)) for event in events]
    found = [re.findall(r"(got out|held): ([a-z ]+)", text) for text in texts]
    return next(filter(None, found))


@pytest.mark.experts
@pytest.mark.parametrize("backend", ["bubblewrap", "sandlock", "none"])
async def test_an_intruder_leaves_its_sandbox_nowhere_and_breaks_the_file_of_no_other(
    backend: str, tmp_path: Path
) -> None:
    if (problem := sandbox_problem(SandboxSettings(backend=backend))) is not None:
        pytest.skip(problem)
    manifest = copy_with_sandbox(backend, tmp_path)
    journal, refused = await run_coding_team(manifest)
    assert refused == [("intruder", "not_owned", ["prices.py"])]
    places = ["read", "write", "read by a link", "write by a link", "processes of others"]
    assert await attempts(journal) == [("got out" if backend == "none" else "held", one) for one in places]
    out = data_folder() / "workspaces" / "r" / "repository.git" / "out"
    assert out.exists() is (backend == "none"), "without a sandbox the same attempts get out"
    whole = RecordedBranch(journal, await read_record(journal, "r"))
    assert "late" not in await whole.patch(), "what a command leaves behind has ended with it"
    assert "+    return sum(price * count for price, count in items)" in await whole.patch()
    await same_files_wherever_killed(manifest, journal, kills=2)
