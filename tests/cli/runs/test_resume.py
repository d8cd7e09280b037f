"""`runs logs`, checkpoints and `runs diff`, and what `runs show` and `runs export` add."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import TEAM, Call, write_team

ASKING = "agents: {chooser: {function: 'tests.cli.people:ask'}}"
DESK = """\
agents:
  counter: {function: 'tests.cli.parcel_agents:count'}
  teller: {function: 'tests.cli.parcel_agents:tell'}
teams:
  scales: {members: [counter]}
  desk: {members: [scales, teller]}
"""


@pytest.fixture
def desk(call: Call, tmp_path: Path) -> str:
    """A run of a team in a team that logs, measures, shares and keeps."""
    folder = write_team(tmp_path / "desk", DESK)
    assert call("run", folder, "Weigh them", "--run-id", "desk-1").code == 0
    return "desk-1"


def test_each_member_has_its_own_log(call: Call, desk: str) -> None:  # P-02, P-08
    every = call("runs", "logs", desk, "--json").json
    assert every[0].keys() == {"number", "at", "level", "member", "key", "text"}
    assert [line["number"] for line in every] == sorted(line["number"] for line in every)
    own = call("runs", "logs", desk, "--member", "counter", "--json").json
    assert {line["member"] for line in own} == {"counter"}
    texts = [line["text"] for line in own]
    assert texts[0] == "is asked: Weigh them"
    assert texts[1:9] == [f"weighed parcel {number}" for number in range(1, 9)]
    for words in ("kilograms: 8", "writes parcels, version 1", "stores parcels.csv (text/csv, 14 B)"):
        assert words in texts
    assert texts[-1].startswith("replied: Twelve parcels.")
    inside = call("runs", "logs", desk, "--member", "scales", "--json").json
    assert {line["member"] for line in inside} == {"scales", "counter"}


def test_a_log_can_be_narrowed_to_important_lines(call: Call, desk: str) -> None:  # P-02
    lines = call("runs", "logs", desk, "--level", "warning").out.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("warning  counter       parcel 3 is wet")
    text = call("runs", "logs", desk).out
    assert "debug    counter       the scales stand\n" in text
    assert "\n" + " " * 40 + "at zero\n" in text
    wrong = call("runs", "logs", desk, "--level", "loud", "--json")
    assert (wrong.code, wrong.json["error"]["kind"]) == (2, "UnknownName")


def test_an_unknown_member_is_reported_with_the_nearest_names(call: Call, desk: str) -> None:
    wrong = call("runs", "logs", desk, "--member", "countre")
    assert wrong.code == 2
    assert "counter" in wrong.err


def test_a_log_can_be_followed_and_written_to_a_file(call: Call, desk: str, tmp_path: Path) -> None:  # P-02
    assert call("runs", "logs", desk, "--follow").out == call("runs", "logs", desk).out
    assert call("runs", "logs", desk, "-f", "--json").json == call("runs", "logs", desk, "--json").json
    file = tmp_path / "log.txt"
    assert call("runs", "logs", desk, "--member", "teller", "--out", file).out == ""
    assert "is asked" in file.read_text()


def test_show_lists_what_was_logged_shared_kept_and_measured(call: Call, desk: str) -> None:  # P-02, P-08
    text = call("runs", "show", desk).out
    assert "counter logged · weighed parcel 5" in text
    assert "weighed parcel 6" not in text
    assert "the scales" not in text
    assert "counter warns · parcel 3 is wet" in text
    assert f"4 log lines not shown; see  teamwright runs logs {desk}" in text
    for words in (
        "Shared values\n  parcels (version 2, by teller)\n    told",
        "Artifacts\n  parcels.csv (text/csv, 14 B, by counter), body ",
        "Figures\n  kilograms: 12.5, in 2 measurements",
        "checkpoint counted",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100
    told = call("runs", "show", desk, "--json").json
    assert told["workspace"]["values"] == {"parcels": {"value": "told", "version": 2, "by": "teller"}}
    assert [one["name"] for one in told["workspace"]["artifacts"]] == ["parcels.csv", "photo"]
    assert told["figures"] == [{"name": "kilograms", "total": 12.5, "count": 2}]
    assert len([entry for entry in told["story"] if entry["kind"] == "log"]) == 10


def test_a_run_that_shares_nothing_says_nothing_of_it(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    text = call("runs", "show", "one").out
    for heading in ("Shared values", "Artifacts", "Figures", "log line"):
        assert heading not in text


def test_an_export_holds_what_was_shared_and_kept(call: Call, desk: str) -> None:  # P-08
    exported = call("runs", "export", desk).json
    kept = {one["artifact"]["name"]: one["artifact"]["hash"] for one in exported["events"] if "artifact" in one}
    assert exported["bodies"][kept["parcels.csv"]] == "parcel,kg\n1,2\n"
    assert exported["bodies"][kept["photo"]] == {"$bytes": "AP8="}
    written = [one["body"] for one in exported["events"] if one["kind"] == "workspace.written"]
    assert [exported["bodies"][body] for body in written] == [{"heaviest": "parcel 3"}, "told"]


def test_the_points_of_a_run_are_listed(call: Call, desk: str) -> None:  # P-09
    listed = call("runs", "steer", desk, "checkpoint", "--json").json
    assert listed[0].keys() == {"number", "name", "how", "at", "after", "key", "total_tokens", "usd"}
    assert [(one["name"], one["how"]) for one in listed] == [
        ("start", "start"), ("counted", "named"), ("step-1/step-1", "turn"), ("step-1", "turn"), ("step-2", "turn")
    ]  # fmt: skip
    lines = call("runs", "steer", desk, "checkpoint").out.splitlines()
    assert lines[0].split() == ["EVENT", "NAME", "AT", "TOKENS", "PRICE", "AFTER"]
    assert lines[2].endswith("counter set it")


@pytest.mark.parametrize("at", ["step-1", "7"])
def test_a_fork_begins_at_a_checkpoint_by_name_or_number(call: Call, team: Path, at: str) -> None:  # P-09
    call("run", team, "Explain", "--run-id", "one")
    (team / "replies.yaml").write_text("rules: [{agent: critic, reply: Too short.}]")
    done = call("runs", "fork", "one", "--at", at, "--run-id", "two", "--json")
    assert [message["content"] for message in done.json["messages"]][1:] == ["Too short."]
    assert "forked from run one at step-1 (event 7)" in call("runs", "show", "two").out


def test_a_checkpoint_that_is_not_there_is_a_usage_error(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    missing = call("runs", "fork", "one", "--at", "stpe-1")
    assert missing.code == 2
    assert "step-1" in missing.err


def test_a_person_names_a_point_and_goes_back_to_it(call: Call, tmp_path: Path) -> None:  # P-09
    folder = write_team(tmp_path / "team", ASKING)
    assert call("run", folder, "Paint it", "--run-id", "one").code == 7
    named = call("runs", "steer", "one", "checkpoint", "before-paint", "--by", "Ada", "--json")
    assert (named.code, named.json["name"], named.json["after"]) == (0, "before-paint", "Ada set it")
    assert "runs fork one --at before-paint" in named.err
    call("runs", "answer", "one", "red")
    assert call("runs", "resume", "one").out == "It is red.\n"
    assert "checkpoint before-paint, set by Ada" in call("runs", "show", "one").out
    assert call("runs", "fork", "one", "--at", "before-paint", "--run-id", "two").code == 7
    call("runs", "answer", "two", "blue")
    assert call("runs", "resume", "two").out == "It is blue.\n"
    assert call("runs", "steer", "one", "checkpoint", "late").code == 1
    assert call("runs", "steer", "two", "checkpoint", "12").code == 2


def test_two_runs_are_compared_and_the_exit_code_is_0_either_way(call: Call, tmp_path: Path) -> None:  # P-09
    failing = "rules: [{agent: writer, reply: Yes.}, {agent: critic, error: refused}]"
    folder = write_team(tmp_path / "team", TEAM, failing)
    call("run", folder, "Explain", "--run-id", "one")
    (folder / "replies.yaml").write_text("rules: [{agent: critic, reply: Fine.}]")
    call("runs", "fork", "one", "--at", "step-1", "--run-id", "two")
    differ = call("runs", "diff", "one", "two")
    assert differ.code == 0
    for words in (
        "B is a fork of A at step-1 (event 7).", "The task is the same.", "1 turn of 2 the same.",
        "They diverge at report/step-2, critic: its status differs.", "refused: the script says so", "Fine.",
        "The answers differ.",
    ):  # fmt: skip
        assert words in differ.out
    assert "writer  1/1" in differ.out
    told = call("runs", "diff", "one", "two", "--json").json
    assert (told["same"], told["common_turns"], told["first_difference"]["key"]) == (False, 1, "report/step-2")
    assert told["members"][1]["b"]["status"] == "replied"
    same = call("runs", "diff", "two", "two")
    assert same.code == 0
    assert "2 turns the same" in same.out
    assert call("runs", "diff", "one", "three").code == 2


def test_long_texts_are_shown_from_where_they_part(call: Call, team: Path) -> None:
    begin = "The tree is wide and the keys are sorted, " * 20
    for name, end in (("one", "so it is fast."), ("two", "so it is slow.")):
        (team / "replies.yaml").write_text(f"rules: [{{reply: '{begin}{end}'}}]")
        call("run", team, "Explain", "--run-id", name)
    text = call("runs", "diff", "one", "two").out
    assert "same input, another reply" in text
    assert "… is wide and the keys are sorted, so it is fast." in text
    assert "Later differences:\n  report/step-2  critic: its input differs" in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.server
def test_a_run_is_exported_as_a_page(call: Call, desk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from teamwright.server.page.export import PageBundle

    bundle = PageBundle("console.log(1)", "body { margin: 0 }")
    monkeypatch.setattr("teamwright.server.page.export.PageBundle.load", lambda: bundle)
    file = tmp_path / "run.html"
    file.touch(0o644)
    done = call("runs", "export", desk, "--out", str(file))
    assert file.stat().st_mode & 0o777 == 0o600  # the journal is private too
    assert call("runs", "export", desk, "--out", tmp_path / "run.json").code == 0
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600
    assert done.code == 0, done.err
    assert "open it in a browser" in done.err
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert call("runs", "export", desk, "--out", str(tmp_path)).code == 2
    assert call("runs", "export", desk, "--json", "--out", str(file)).code == 0
    assert file.read_text(encoding="utf-8").startswith("{")
