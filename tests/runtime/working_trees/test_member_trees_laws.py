"""Whatever members edit and wherever a run is killed, its branch is the recorded patches, applied in recorded order."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from teamwright import Engine, Team
from teamwright.agents.scripted import Rule
from teamwright.journal.codec import decode_body
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import WorkspacePatched, WorkspaceRefused
from teamwright.values.specs.members import TeamWorkspace
from teamwright.values.value import JsonValue
from tests.kit.coders import branch, calls, coder, git, says
from tests.kit.records import cut
from tests.profiles import sampled

REGIONS, GAP = 3, "".join(f"gap {number}\n" for number in range(8))
NAMES = ("ann", "ben", "cid")

edits = st.tuples(st.sampled_from(["a.txt", "b.txt"]), st.integers(0, REGIONS - 1), st.booleans())
members = st.lists(st.lists(edits, max_size=3), min_size=2, max_size=3)


def text_of(file: str) -> str:
    return GAP.join(f"{file} region {number}\n" for number in range(REGIONS))


def rules_of(name: str, chosen: list[tuple[str, int, bool]]) -> list[Rule]:
    """One call for each edit: of a region that others may edit too, or a file of the member's own."""
    made: list[Rule] = []
    for number, (file, region, own) in enumerate(chosen):
        if own:
            made.append(calls("write_file", path=f"{name}/{number}.txt", content=f"{file} {region}\n"))
        else:
            old = f"{file} region {region}\n"
            made.append(calls("edit_file", path=file, old=old, new=f"{name} was here {number}\n"))
    return [*made, says(f"{name} is done"), says("I leave it"), says("I leave it")]


def make_team(folder: Path, drawn: list[list[tuple[str, int, bool]]], *, in_order: bool) -> Team:
    coders = [coder(name, *rules_of(name, chosen), optional=True) for name, chosen in zip(NAMES, drawn, strict=False)]
    steps: list[JsonValue] = []
    for number, one in enumerate(coders):
        needs: list[JsonValue] = [coders[number - 1].name] if in_order and number else []
        steps.append({"id": one.name, "agent": one.name, "needs": needs})
    workspace = TeamWorkspace(git=str(folder), revisions=0)
    return Team("team", members=coders, strategy="dag", options={"steps": steps}, workspace=workspace)


async def check_law(
    journal: MemoryJournal, source: Path, work: Path, drawn: list[list[tuple[str, int, bool]]]
) -> list[str]:
    """Apply the recorded patches one by one with Git alone, and compare the files with those of the branch.

    Each member that has written a file of its own is on it, with all of them, unless its changes were given up.
    """
    found = await branch(journal)
    git(source, "worktree", "add", "--quiet", "--detach", str(work), found.branch.base)
    for fact in found.branch.chain():
        body = (await journal.bodies([fact.patch.hash]))[fact.patch.hash]
        subprocess.run(["git", "apply", "-"], cwd=work, input=str(decode_body(body)).encode(), check=True)
    events = await journal.read("r")
    given_up = {one.fact.member for one in events if isinstance(one.fact, WorkspaceRefused) and not one.fact.resolver}
    for name, chosen in zip(NAMES, drawn, strict=False):
        own = {work / name / f"{number}.txt" for number, (_, _, is_own) in enumerate(chosen) if is_own}
        assert {one for one in own if one.exists()} == (set() if name in given_up else own), name
    git(work, "add", "--all")
    applied = git(work, "write-tree").strip()
    repository = await found.open()
    assert applied == await repository.tree_of(found.branch.tip())
    chain = [fact.commit for fact in found.branch.chain()]
    recorded = [event.fact.commit for event in events if isinstance(event.fact, WorkspacePatched)]
    assert recorded == chain, "what is recorded as applied is on the branch, and once"
    return chain


async def check(drawn: list[list[tuple[str, int, bool]]], *, in_order: bool, share: float, root: Path) -> None:
    source = root / "source"
    source.mkdir()
    git(source, "init", "--quiet")
    for file in ("a.txt", "b.txt"):
        (source / file).write_text(text_of(file))
    git(source, "add", ".")
    git(source, "commit", "--quiet", "--message=one")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(make_team(source, drawn, in_order=in_order), "Edit", run_id="r")
    whole = await check_law(journal, source, root / "first", drawn)
    events = await journal.read("r")
    at = 1 + int(share * (len(events) - 2))
    copy = await cut(journal, at)
    durable = [str(one.fact.to_json()["commit"]) for one in events[:at] if one.kind == "workspace.patched"]
    async with Engine(copy) as engine:
        await engine.resume("r", team=make_team(source, drawn, in_order=in_order))
    again = await check_law(copy, source, root / "second", drawn)
    assert again[: len(durable)] == durable, "what was recorded as applied stays applied, once"
    if in_order:
        assert again == whole


@settings(max_examples=sampled(3, 20), deadline=None)
@given(drawn=members, in_order=st.booleans(), share=st.floats(0, 1))
def test_the_branch_is_the_recorded_patches_in_recorded_order(
    drawn: list[list[tuple[str, int, bool]]], in_order: bool, share: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(drawn, in_order=in_order, share=share, root=Path(folder)))
