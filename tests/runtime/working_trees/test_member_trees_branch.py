"""The branch of a run follows from the record: applied changes in order, without those that a fork makes again."""

from __future__ import annotations

from teamwright.runtime.working_trees.member_trees import TeamBranch
from teamwright.values.events.agent import WorkspacePatched
from teamwright.values.turns.artifacts import PATCH, Artifact


def patched(work: str, parent: str, commit: str) -> WorkspacePatched:
    patch = Artifact(hash=commit * 40, name=f"{parent}.1.diff", media_type=PATCH, size=1)
    return WorkspacePatched(
        member=work, work=f"t/{work}", merge=f"t/merge-1/{work}", patch=patch, parent=parent, commit=commit,
        message=work, dated=0,
    )  # fmt: skip


APPLIED = [(10, patched("one", "0", "a")), (20, patched("two", "a", "b")), (30, patched("three", "b", "c"))]


def commits(branch: TeamBranch, before: int | None = None) -> str:
    return "".join(one.commit for one in branch.chain(before))


def test_a_branch_is_at_its_last_change_or_at_its_base() -> None:
    assert (TeamBranch("0").tip(), commits(TeamBranch("0"))) == ("0", "")
    branch = TeamBranch("0", APPLIED)
    assert (branch.tip(), commits(branch)) == ("c", "abc")
    assert [branch.tip(at) for at in (10, 11, 20, 21)] == ["0", "a", "a", "b"]
    branch.apply(40, patched("four", "c", "d"))
    assert (branch.tip(), branch.tip(40)) == ("d", "c")


def test_changes_on_top_of_others_that_are_left_out_are_no_part_of_the_branch() -> None:
    branch = TeamBranch("0", APPLIED)
    branch.leave_out("t/two", inherited=30)
    assert commits(branch) == "a", "the third stands on the second, and has to be made again"
    branch.apply(40, patched("three", "a", "e"))
    assert commits(branch) == "ae"


def test_changes_of_asks_inside_and_of_a_merge_are_left_out_and_those_after_the_fork_stay() -> None:
    for key in ("t", "t/three", "t/merge-1/three"):
        branch = TeamBranch("0", APPLIED)
        branch.leave_out(key, inherited=30)
        assert commits(branch) == ("" if key == "t" else "ab")
        branch = TeamBranch("0", APPLIED)
        branch.leave_out(key, inherited=5)
        assert commits(branch) == "abc"


def test_an_application_is_found_by_its_work_and_commit() -> None:
    branch = TeamBranch("0", APPLIED)
    assert branch.find("t/two", "b") is APPLIED[1][1]
    assert branch.find("t/two", "a") is branch.find("t/one", "b") is None
