from __future__ import annotations

from pathlib import Path

from tests.kit.terminal import Call


def test_the_figures_of_the_run_and_its_members_are_side_by_side(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    done = call("runs", "what-if", "one")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["ASKS", "TOKENS", "IN", "OUT", "PRICE", "TIME"]
    assert [line.split()[0] for line in lines[1:7]] == ["run", "what", "writer", "what", "critic", "what"]
    assert lines[1].split()[2:6] == lines[2].split()[2:6]
    assert "≈" not in done.out
    assert lines[-1] == "what if   completed (done)"


def test_an_estimate_is_marked_figure_by_figure_and_says_why(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    done = call("runs", "what-if", "one", "--model", "critic=openai:gpt-4o")
    assert done.out.splitlines()[4].startswith("  what if  1 ")  # the writer came first
    assert done.out.splitlines()[6].startswith("  what if  ≈1 ")
    assert "≈ another model would write other words than 'critic' did" in done.out
    report = call("runs", "what-if", "one", "--model", "critic=openai:gpt-4o", "--json").json
    assert report["changes"] == {"models": {"critic": "openai:gpt-4o"}}
    assert {name: one["exact"] for name, one in report["members"].items()} == {"writer": True, "critic": False}
    assert report["members"]["critic"]["what_if"]["usd"] > 0
    assert call("runs", "list", "--json").json[0]["id"] == "one"
    assert len(call("runs", "list", "--json").json) == 1


def test_a_limit_names_the_turn_at_which_it_would_have_stopped(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one", "--max-calls", 9)
    done = call("runs", "what-if", "one", "--max-calls", 1)
    assert "what if   degraded (budget)" in done.out
    assert "stopped   at report/step-2: the run has 0 of 1 calls left, and the next call may need 1" in done.out
    assert call("runs", "what-if", "one", "--max-calls", 1, "--json").json["stopped"]["member"] == "critic"


def test_names_that_are_not_known_are_refused(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    for arguments, message in (
        (("two",), "There is no run 'two'"),
        (("one", "--model", "critik=openai:gpt-4o"), "did you mean 'critic'"),
        (("one", "--model", "critic"), "write  --model reviewer=openai:gpt-5-mini"),
        (("one", "--topology", "mseh"), "did you mean 'mesh'"),
        (("one", "--at-once", "2"), "work one after another"),
    ):
        done = call("runs", "what-if", *arguments)
        assert done.code == 2
        assert message in done.err
