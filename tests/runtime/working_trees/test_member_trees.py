"""Turns on trees of their own, and their changes on the team's branch: applied, refused, resolved, after any crash."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright import Engine, Team
from teamwright.agents.evaluators import make_evaluator
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import ManifestError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.location import data_folder
from teamwright.runtime.working_trees.member_trees import prune_trees
from teamwright.values.events.agent import WorkspacePatched, WorkspaceRefused
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.specs.tools import SandboxSettings, ShellSpec, ShellTool
from teamwright.values.value import JsonValue
from tests.kit.coders import LINES, branch, calls, coder, git, says, shown
from tests.kit.records import cut


def side_by_side(repository: Path, *members: ScriptedAgent, needs: bool = False, **owns: list[str]) -> Team:
    """A team whose members work at the same time; with `needs`, one after the other."""
    steps: list[JsonValue] = []
    for one in members:
        step: dict[str, JsonValue] = {"id": f"by-{one.name}", "agent": one.name}
        step |= {"owns": list[JsonValue](owns[one.name])} if one.name in owns else {}
        step |= {"needs": [f"by-{members[members.index(one) - 1].name}"]} if needs and one is not members[0] else {}
        steps.append(step)
    workspace = TeamWorkspace(git=str(repository))
    return Team("team", members=members, strategy="dag", options={"steps": steps}, workspace=workspace)


async def refusals(journal: MemoryJournal) -> list[WorkspaceRefused]:
    return [event.fact for event in await journal.read("r") if isinstance(event.fact, WorkspaceRefused)]


async def test_each_member_begins_where_the_branch_is_and_its_changes_become_one_commit(repository: Path) -> None:
    first = coder("first", calls("edit_file", path="a.py", old="A = 1", new="A = 10"), says("done"))
    read, write = calls("read_file", path="a.py"), calls("write_file", path="new/c.py", content="c\n")
    team = Team(
        "team",
        members=[first, coder("second", read, write, says("done"))],
        workspace=TeamWorkspace(git=str(repository)),
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "Fix it", run_id="r")
        texts = [await engine.texts(event) for event in await journal.read("r") if event.kind == "agent.returned"]
    assert result.status == "completed"
    assert any("A = 10" in str(text) for text in texts), "the second member reads what the first has changed"
    found = await branch(journal)
    assert [(one.member, one.files) for one in found.branch.chain()] == [
        ("first", ("a.py",)),
        ("second", ("new/c.py",)),
    ]
    assert await shown(found, "a.py") == LINES.replace("A = 1", "A = 10")
    assert git(repository, "status", "--porcelain") == "", "the user's tree stays as it was"
    assert git(repository, "branch", "--list", "teamwright/*") == "", "nothing is written before the user applies it"


async def test_changes_of_the_same_lines_are_given_back_with_both_versions_and_resolved(repository: Path) -> None:
    def member(name: str, value: int) -> ScriptedAgent:
        edit = calls("edit_file", path="a.py", old="A = 1", new=f"A = {value}")
        return coder(name, edit, says("done"), calls("write_file", path="a.py", content="A = 30\n"), says("both"))

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, member("x", 10), member("y", 20)), "Fix it", run_id="r")
        asked = [await engine.texts(event) for event in await journal.read("r") if "resolve-1" in event.key]
    (refused,) = await refusals(journal)
    assert (refused.reason, refused.files[0].path, refused.files[0].lines) == ("conflict", "a.py", ((1, 5),))
    assert refused.resolver == refused.member, "whoever comes second resolves it"
    assert "- a.py: lines 1-5" in str(asked[0])
    assert result.status == "completed"
    found = await branch(journal)
    assert len(found.branch.chain()) == 2
    assert await shown(found, "a.py") == "A = 30\n"


async def test_a_conflict_that_stays_marked_fails_the_work_and_leaves_the_branch_as_it_was(repository: Path) -> None:
    edits = [calls("edit_file", path="a.py", old="A = 1", new=f"A = {number}0") for number in (1, 2)]
    members = [
        coder(name, edit, says("done"), says("so be it"), says("so be it"))
        for name, edit in zip("xy", edits, strict=True)
    ]
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, *members), "Fix it", run_id="r")
    assert result.failure is not None
    assert result.failure.error == "conflict"
    assert [one.reason for one in await refusals(journal)] == ["conflict", "unresolved", "unresolved"]
    assert len((await branch(journal)).branch.chain()) == 1


async def test_a_member_can_not_change_what_its_step_does_not_own(repository: Path) -> None:
    two = coder("two", calls("edit_file", path="a.py", old="A = 1", new="A = 2"), says("I may not"))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(side_by_side(repository, two, two=["b.py"]), "Fix it", run_id="r")
        failed = [str(event.fact.to_json()) for event in await journal.read("r") if event.kind == "agent.call_failed"]
    assert "not this step's to write" in failed[0]
    assert not (await branch(journal)).branch.chain()


async def test_a_run_that_is_killed_anywhere_ends_with_the_same_commits(repository: Path) -> None:
    """Also where the repository of the run is gone, and where a call was made and not recorded."""

    def team() -> Team:
        first = coder("first", calls("edit_file", path="a.py", old="A = 1", new="A = 10"), says("done"))
        second = coder(
            "second",
            calls("edit_file", path="a.py", old="B = 2", new="B = 2\nD = 4"),
            calls("write_file", path="c.py", content="c\n"),
            says("done"),
        )
        return side_by_side(repository, first, second, needs=True)

    journal = MemoryJournal()
    async with Engine(journal, wall=lambda: 1_700_000_000.0) as engine:
        await engine.run(team(), "Fix it", run_id="r")
    whole, folder = await branch(journal), data_folder() / "workspaces" / "r"
    events = await journal.read("r")
    for at in range(1, len(events)):
        copy = await cut(journal, at)
        if at % 2:
            shutil.rmtree(folder, ignore_errors=True)
        async with Engine(copy, wall=lambda: 1_700_000_000.0) as engine:
            result = await engine.resume("r", team=team())
        assert result.status == "completed"
        assert (await branch(copy)).branch.tip() == whole.branch.tip(), (
            f"killed after event {at}, {events[at - 1].kind}"
        )
        assert sum(isinstance(event.fact, WorkspacePatched) for event in await copy.read("r")) == 2


async def test_a_fork_leaves_out_the_changes_that_came_after_its_point(repository: Path) -> None:
    first = coder("first", calls("edit_file", path="a.py", old="A = 1", new="A = 10"), says("done"))
    second = coder("second", calls("write_file", path="c.py", content="c\n"), says("done"))
    team = side_by_side(repository, first, second, needs=True)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "Fix it", run_id="r")
        at = next(event.number for event in await journal.read("r") if event.kind == "workspace.patched")
        other = coder("second", says("I change nothing"))
        await engine.fork("r", at=at, new_id="f", team=side_by_side(repository, first, other, needs=True))
    assert [one.member for one in (await branch(journal)).branch.chain()] == ["first", "second"]
    assert [one.member for one in (await branch(journal, "f")).branch.chain()] == ["first"]


def clone_without_files(folder: Path) -> None:
    source = folder.parent / "repository"
    git(source, "config", "uploadpack.allowFilter", "true")
    git(source, "clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{source}", str(folder))


def make_within(folder: Path) -> None:
    folder.mkdir()
    git(folder.parent, "init", "--quiet")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "is no folder"),
        (make_within, "it is a folder of the repository '.*'; name that"),
        (clone_without_files, "does not have all files of its commit"),
        (lambda folder: folder.mkdir(), "is no Git repository"),
        (lambda folder: (folder.mkdir(), git(folder, "init", "--quiet")), "has no commit yet"),
    ],
)
async def test_a_workspace_that_can_not_be_used_is_refused_before_anything_starts(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "there")
    team = Team("team", members=[coder("one", says("x"))], workspace=TeamWorkspace(git=str(tmp_path / "there")))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        with pytest.raises(UsageError, match=message):
            await engine.run(team, "Fix it", run_id="r")
        assert await journal.find("r") is None


async def test_without_git_nothing_starts(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    team = Team("team", members=[coder("one", says("x"))], workspace=TeamWorkspace(git=str(repository)))
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match=r"needs Git 2\.38 or newer: there is no `git` here"):
            await engine.run(team, "Fix it")


def test_only_the_outermost_team_has_a_workspace_and_its_merger_is_a_member(repository: Path) -> None:
    workspace = TeamWorkspace(git=str(repository))
    inner = Team("inner", members=[coder("one", says("x"))], workspace=workspace)
    with pytest.raises(ManifestError, match="'inner' can't have a `workspace` within 'outer'"):
        Team("outer", members=[inner])
    with pytest.raises(ManifestError, match="the merger 'tow' is no member"):
        Team("t", members=[coder("two", says("x"))], workspace=TeamWorkspace(git=str(repository), agent="tow"))


def hostile(*commands: str) -> ScriptedAgent:
    """A member whose commands have the rights of the process, so that only the merge can hold it."""
    shell = ShellSpec(shell=ShellTool(sandbox="none"))
    runs = [calls("run_command", command=one) for one in commands]
    return coder("hostile", *runs, says("done"), says("no"), says("no"), tools=("files", shell))


@pytest.mark.parametrize(
    ("command", "reason", "path"),
    [
        ("ln -s /etc/passwd stolen", "unsafe", "stolen"),
        (
            "mkdir n && cd n && git init -q . && git -c user.name=x -c user.email=x commit -q --allow-empty -m x",
            "unsafe",
            "n",
        ),
        ("echo mine > a.py", "not_owned", "a.py"),
        ("rm a.py", "not_owned", "a.py"),
    ],
)
async def test_what_a_command_did_outside_of_its_rights_is_refused_at_the_merge(
    repository: Path, command: str, reason: str, path: str
) -> None:
    owns = ["b.py"] if reason == "not_owned" else ["**"]
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, hostile(command), hostile=owns), "Fix it", run_id="r")
    assert result.failure is not None
    assert [(one.reason, one.files[0].path) for one in await refusals(journal)] == [(reason, path)] * 3
    assert not (await branch(journal)).branch.chain()


async def test_a_git_folder_that_a_member_makes_is_no_part_of_its_changes_and_runs_nothing(
    repository: Path, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence"
    command = (
        "git init -q . && printf '#!/bin/sh\\ntouch %s\\n' " + str(evidence) + " > .git/run && chmod +x .git/run"
        ' && printf \'[core]\\nfsmonitor = %s/.git/run\\nhooksPath = %s/.git\\n\' "$PWD" "$PWD" >> .git/config'
        " && cp .git/run .git/post-index-change && echo new > new.py"
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, hostile(command)), "Fix it", run_id="r")
    assert result.status == "completed"
    assert [one.files for one in (await branch(journal)).branch.chain()] == [("new.py",)]
    assert not evidence.exists()


async def test_a_call_that_fails_has_changed_nothing(repository: Path) -> None:
    shell = ShellSpec(shell=ShellTool(sandbox=SandboxSettings(backend="none", seconds=0.5)))
    rules = (
        calls("run_command", command="echo half > a.py; sleep 20"),
        calls("write_file", path="c.py", content="c"),
        says("done"),
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(side_by_side(repository, coder("one", *rules, tools=("files", shell))), "Fix it", run_id="r")
    assert [one.files for one in (await branch(journal)).branch.chain()] == [("c.py",)]


async def test_a_named_merger_resolves_what_others_can_not(repository: Path) -> None:
    edits = [calls("edit_file", path="a.py", old="A = 1", new=f"A = {number}0") for number in (1, 2)]
    members = [coder(name, edit, says("done")) for name, edit in zip("xy", edits, strict=True)]
    merger = coder("merger", calls("write_file", path="a.py", content="A = 12\n"), says("merged"))
    steps: list[JsonValue] = [{"id": one.name, "agent": one.name} for one in members]
    workspace = TeamWorkspace(git=str(repository), agent="merger")
    team = Team(
        "team", members=[*members], helpers=[merger], strategy="dag", options={"steps": steps}, workspace=workspace
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        assert (await engine.run(team, "Fix it", run_id="r")).status == "completed"
    assert [one.resolver for one in await refusals(journal)] == ["merger"]
    assert await shown(await branch(journal), "a.py") == "A = 12\n"


@pytest.mark.experts
@pytest.mark.parametrize("where", ["member", "step", "step with states"])
async def test_work_that_passes_in_its_second_round_is_applied_once_with_the_changes_of_both(
    repository: Path, where: str
) -> None:
    check = Evaluate(criteria=(Criterion(id="three", command=("grep", "-q", "A = 3", "a.py")),), revisions=1)
    edits = [calls("edit_file", path="a.py", old=f"A = {at}", new=f"A = {at + 1}") for at in (1, 2)]
    add = calls("write_file", path="c.py", content="c\n")
    evaluate = make_evaluator(check) if where == "member" else None
    one = coder("one", add, edits[0], says("first"), edits[1], says("second"), evaluate=evaluate)
    step: dict[str, JsonValue] = {"id": "s", "agent": "one"}
    if where != "member":
        step["evaluate"] = check.model_dump(mode="json", exclude_unset=True)
    options: dict[str, JsonValue] = {"steps": [step]}
    if where == "step with states":
        options["timeout"] = 600
    workspace = TeamWorkspace(git=str(repository))
    team = Team("team", members=[one], strategy="dag", options=options, workspace=workspace)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "Fix it", run_id="r")
    assert (result.status, result.output) == ("completed", "second")
    found = await branch(journal)
    assert [one.files for one in found.branch.chain()] == [("a.py", "c.py")]
    assert (await shown(found, "a.py")).startswith("A = 3")


@pytest.mark.experts
async def test_a_check_finds_nothing_that_one_before_it_has_left(repository: Path) -> None:
    """Neither caches, which are no changes, nor files, which would be changes of a member."""
    leave = "mkdir -p __pycache__; touch __pycache__/planted left"
    seen = "test ! -e __pycache__/planted && test ! -e left || { echo $PWD/left is there; exit 1; }"

    def checked(name: str, *rules: Rule) -> ScriptedAgent:
        commands = (("sh", "-c", seen), ("sh", "-c", leave), ("sh", "-c", seen), ("sh", "-c", leave))
        criteria = tuple(Criterion(id=f"check-{number}", command=one) for number, one in enumerate(commands))
        return coder(name, *rules, evaluate=make_evaluator(Evaluate(criteria=criteria, revisions=0)))

    one = checked("one", calls("write_file", path="c.py", content="c\n"), says("done"))
    two = checked("one.index", calls("write_file", path="d.py", content="d\n"), says("done"))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, one, two, needs=True), "Fix it", run_id="r")
    assert result.failure is None
    assert [one.files for one in (await branch(journal)).branch.chain()] == [("c.py",), ("d.py",)]
    assert (await prune_trees(journal)).kept == (), "what a check has left counts for nothing"


@pytest.mark.experts
async def test_a_check_names_files_as_its_author_knows_them(repository: Path) -> None:
    check = Evaluate(
        criteria=(Criterion(id="no", command=("sh", "-c", "echo $PWD/a.py is wrong; exit 1")),), revisions=1
    )
    one = coder("one", says("done"), says("so be it"), evaluate=make_evaluator(check))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(side_by_side(repository, one), "Fix it", run_id="r")
        asked = [str(await engine.texts(event)) for event in await journal.read("r") if event.kind == "agent.asked"]
    revision = next(text for text in asked if "is wrong" in text)
    assert "exited with 1: a.py is wrong" in revision


@pytest.mark.experts
async def test_work_that_does_not_pass_is_applied_nowhere(repository: Path) -> None:
    check = Evaluate(criteria=(Criterion(id="no", command=("false",)),), revisions=0)
    one = coder("one", calls("write_file", path="c.py", content="c\n"), says("done"), evaluate=make_evaluator(check))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(side_by_side(repository, one), "Fix it", run_id="r")
    assert result.failure is not None
    assert not (await branch(journal)).branch.chain()


async def test_the_same_run_is_not_begun_twice_and_no_queue_takes_it(repository: Path) -> None:
    def team() -> Team:
        return side_by_side(repository, coder("one", calls("write_file", path="c.py", content="c\n"), says("done")))

    async with Engine("memory") as engine:
        first = await engine.run(team(), "Fix it", run_id="r")
        assert (await engine.run(team(), "Fix it", run_id="r")).seconds == first.seconds
        with pytest.raises(UsageError, match="works on files of this machine"):
            await engine.enqueue(team(), "Fix it", queue="q")


async def test_an_agent_that_is_a_tool_works_on_the_tree_of_who_asks_it(repository: Path) -> None:
    def team() -> Team:
        edit = calls("edit_file", path="c.py", old="c", new="d")
        helper = coder("helper", calls("write_file", path="c.py", content="c\n"), says("written"))
        ask = calls("helper", task="Write c.py")
        return side_by_side(repository, coder("one", ask, edit, says("done"), tools=("files", helper)))

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team(), "Fix it", run_id="r")
    found = await branch(journal)
    assert [one.files for one in found.branch.chain()] == [("c.py",)]
    assert await shown(found, "c.py") == "d\n"
    events = await journal.read("r")
    for at in range(5, len(events), 3):
        copy = await cut(journal, at)
        async with Engine(copy) as engine:
            assert (await engine.resume("r", team=team())).status == "completed"
        assert await shown(await branch(copy), "c.py") == "d\n", f"killed after event {at}"


@pytest.mark.experts
async def test_of_changes_that_compete_those_of_the_winner_are_applied(repository: Path) -> None:
    members = [
        coder(name, calls("write_file", path="c.py", content=f"by {name}\n"), says(f"{name} has done it"))
        for name in ("ann", "ben")
    ]
    step: JsonValue = {
        "id": "race",
        "parallel": "competitive_parallel",
        "agents": ["ann", "ben"],
        "task": "Write c.py",
    }
    pick = Rule.model_validate({"match": "Pick the best one", "json": {"winner": "answer-2", "reason": "It is."}})
    plan = Rule.model_validate({"match": "You plan the work of a team", "json": {"steps": [step]}})
    lead = ScriptedAgent("lead", [plan, pick, Rule(reply="ben has won")])
    workspace = TeamWorkspace(git=str(repository))
    team = Team("team", members=[lead, *members], strategy="collaborate", workspace=workspace)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "Fix it", run_id="r")
    assert result.status == "completed", result.failure
    found = await branch(journal)
    assert [one.member for one in found.branch.chain()] == ["ben"]
    assert await shown(found, "c.py") == "by ben\n"
