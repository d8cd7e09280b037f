from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import TEAM, Call, write_team
from tests.paths import EXAMPLES

LIST_FIELDS = {"id", "team", "status", "stop_reason", "started_at", "seconds", "total_tokens", "usd"}
ASKING = "agents: {chooser: {function: 'tests.cli.people:ask'}}"


def test_the_list_is_newest_first_with_the_agreed_fields(call: Call, team: Path) -> None:
    assert call("runs", "list", "--json").json == []
    assert "no runs" in call("runs", "list").err
    for name in ("one", "two", "three"):
        call("run", team, "Explain", "--run-id", name)
    listed = call("runs", "list", "--json").json
    assert [run["id"] for run in listed] == ["three", "two", "one"]
    assert listed[0].keys() == LIST_FIELDS
    assert [run["id"] for run in call("runs", "list", "--limit", 1, "--json").json] == ["three"]
    assert call("runs", "list", "--status", "failed", "--json").json == []
    none_such = call("runs", "list", "--status", "failed", "--status", "paused").err
    assert none_such == "There are no failed or paused runs. See all with  teamwright runs list\n"
    assert call("runs", "list", "--status", "bad").code == 2
    table = call("runs", "list").out.splitlines()
    assert table[0].startswith("RUN ")
    assert table[1].startswith("three ")


def test_a_run_is_found_by_a_unique_beginning_or_as_last(call: Call, team: Path) -> None:
    for name in ("alpha-1", "alpha-2", "beta"):
        call("run", team, "Explain", "--run-id", name)
    assert call("runs", "show", "last", "--json").json["run_id"] == "beta"
    assert call("runs", "show", "alpha-1", "--json").json["run_id"] == "alpha-1"
    assert call("runs", "show", "b", "--json").json["run_id"] == "beta"
    ambiguous = call("runs", "show", "alpha")
    assert ambiguous.code == 2
    assert "alpha-1" in ambiguous.err
    missing = call("runs", "show", "betta", "--json")
    assert missing.code == 2
    assert missing.json["error"]["kind"] == "RunNotFound"


def test_no_run_is_called_last(call: Call, team: Path) -> None:
    refused = call("run", team, "Explain", "--run-id", "last")
    assert refused.code == 2
    assert "choose another --run-id" in refused.err
    call("run", team, "Explain", "--run-id", "one")
    assert call("runs", "fork", "one", "--run-id", "last").code == 2
    assert [run["id"] for run in call("runs", "list", "--json").json] == ["one"]


async def test_a_run_that_python_code_has_called_last_is_not_in_the_way(call: Call, team: Path) -> None:
    from teamwright import Engine, load_team
    from teamwright.cli.terminal.command_setup import find_run

    async with Engine() as engine:
        for name in ("last", "newer"):
            await engine.run(load_team(team), "Explain", run_id=name)
        assert (await find_run(engine.journal, "last")).id == "newer"
        assert (await find_run(engine.journal, "las")).id == "last"


def test_a_retry_is_suggested_only_where_it_is_possible(call: Call, tmp_path: Path) -> None:
    strict = write_team(tmp_path / "strict", TEAM, "{strict: true, rules: [{reply: First.}, {agent: x, reply: Left.}]}")
    failed = call("run", strict, "Go", "--run-id", "one")
    assert failed.code == 1
    shown = call("runs", "show", "one").out
    for told in (failed.err, shown):
        assert "--retry" not in told
        assert "teamwright runs fork one --at POINT  (teamwright runs steer one checkpoint lists them)" in told
    assert "see what happened: teamwright runs show one" in failed.err
    assert "look closer" not in shown


def test_show_explains_a_run_to_a_reader_who_was_not_there(call: Call, team: Path) -> None:
    call("run", team, "Explain B-trees", "--run-id", "one")
    text = call("runs", "show", "one").out
    for words in (
        "one", "report", "completed (done)", "Explain B-trees", "sequential of writer, critic", "writer said",
        "A B-tree keeps its keys sorted.", "Its nodes are wide.", "critic said", "tokens in", "Why it ended", "Answer",
        "--continue one",
    ):  # fmt: skip
        assert words in text
    told = call("runs", "show", "one", "--json").json
    assert [entry["member"] for entry in told["story"] if entry["kind"] == "said"] == ["writer", "critic"]
    assert told["task"] == "Explain B-trees"
    assert told["next"]


def test_a_run_with_choices_is_explained_to_a_reader_who_was_not_there(call: Call) -> None:
    examples = EXAMPLES
    for name in ("selector", "graph"):
        call("run", examples / name, "--file", examples / name / "task.txt", "--run-id", name)
    text = call("runs", "show", "selector").out
    for words in (
        "foreman said, to coordinate",
        "turn 1 goes to surveyor, chosen by foreman (its answer mentions one eligible member)",
        "turn 2 goes to carpenter, the only eligible member",
        "turn 5 goes to purser, chosen by foreman (as structured output)",
        "surveyor said (",
    ):  # fmt: skip
        assert words in text
    story = call("runs", "show", "selector", "--json").json["story"]
    purposes = {(entry["member"], entry["purpose"]) for entry in story if entry["kind"] == "said"}
    assert purposes == {("foreman", "coordinate"), ("surveyor", "work"), ("carpenter", "work"), ("purser", "work")}
    text = call("runs", "show", "graph").out
    assert "from editor to writer, because data.marks < 8 and state.turns.writer < 3" in text


def test_a_choice_that_was_not_understood_is_reported_with_its_reason(call: Call, tmp_path: Path) -> None:
    declared = """
agents: {a: {}, b: {}, c: {}, chair: {}}
models: {primary: "scripted:replies.yaml"}
teams: {t: {strategy: selector, max_turns: 1, members: [a, b, c], selector: {agent: chair}}}
"""
    team = write_team(tmp_path / "team", declared, "rules: [{agent: chair, reply: whoever}, {reply: hm}]")
    live = call("run", team, "TeamConversation", "--run-id", "one").err
    reason = "turn 1 goes to a, the first eligible member, because the answer 'whoever' names nobody who may speak"
    assert reason in live
    assert reason in call("runs", "show", "one").out


def test_show_reports_retries_and_failures(call: Call, tmp_path: Path) -> None:
    declared = TEAM.replace("Write.}", "Write., retry: {backoff: 0.01}}")
    replies = "rules: [{agent: writer, error: rate_limit, times: 2}, {agent: writer, reply: Yes.}]"
    team = write_team(tmp_path / "team", declared, replies)
    assert call("run", team, "Explain", "--run-id", "one").code == 1
    text = call("runs", "show", "one").out
    assert "attempt 1 failed" in text
    assert "rate limited" in text
    assert "retrying in 0.0 s" in text
    assert "critic · attempt 1 failed: The script has no rule for 'critic'" in text
    assert "runs fork one --retry" in text


def test_a_failure_is_retried_in_a_fork_without_asking_the_others_again(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", TEAM, "rules: [{agent: writer, reply: Yes.}, {agent: critic, error: refused}]")
    assert call("run", team, "Explain", "--run-id", "one").code == 1
    (team / "replies.yaml").write_text("rules: [{agent: critic, reply: Fine.}]")
    done = call("runs", "fork", "one", "--retry", "--run-id", "two", "--json")
    assert done.code == 0
    assert [message["content"] for message in done.json["messages"]] == ["Yes.", "Fine."]
    assert "fork of one" in done.err
    assert "forked from run one" in call("runs", "show", "two").out
    assert call("runs", "fork", "one", "--at", 3, "--retry").code == 2
    assert call("runs", "fork", "one", "--at", 300).code == 2


def test_a_fork_with_a_model_that_cannot_be_used_starts_nothing(
    call: Call, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    call("run", team, "Explain", "--run-id", "one")
    done = call("runs", "fork", "one", "--model", "openai:gpt-5", "--run-id", "two")
    assert (done.code, "set OPENAI_API_KEY" in done.err) == (2, True)
    assert call("runs", "show", "two").code == 2


def test_a_budget_stop_continues_in_a_fork_with_a_larger_budget(call: Call, tmp_path: Path, team: Path) -> None:
    small = (team / "team.yaml").read_text().replace("members", "limits: {calls: 1}, members")
    (team / "team.yaml").write_text(small)
    assert call("run", team, "Explain", "--run-id", "one").code == 4
    done = call("runs", "fork", "one", "--max-calls", 5, "--max-tokens", 5000, "--json")
    assert done.code == 0
    assert done.json["usage"]["requests"] == 2


def test_a_run_that_ran_out_of_time_continues_in_a_fork(call: Call, tmp_path: Path) -> None:
    declared = TEAM.replace("members", "limits: {seconds: 0.3}, members")
    slow = "rules: [{agent: writer, reply: Yes.}, {agent: critic, delay: 9, reply: Late.}]"
    team = write_team(tmp_path / "team", declared, slow)
    assert call("run", team, "Explain", "--run-id", "one").code == 5
    (team / "replies.yaml").write_text("rules: [{agent: critic, reply: Fine.}]")
    assert call("runs", "fork", "one", "--max-seconds", 30).out == "Fine.\n"


def test_a_fork_can_ask_something_else(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    done = call("runs", "fork", "one", "--at", "step-1", "Something else", "--run-id", "two")
    assert done.code == 0
    assert "run two is a fork of one; turns that read the task are asked again\n" in done.err
    assert "Something else" in call("runs", "show", "two").out
    assert done.err.count("A B-tree") == 1  # the writer reads the task
    assert "of them new" not in done.err


def test_a_fork_tells_its_new_tokens_from_those_that_it_took_over(call: Call, team: Path) -> None:
    used = call("run", team, "Explain", "--run-id", "one", "--json").json["usage"]["total_tokens"]
    before = call("runs", "steer", "one", "checkpoint", "--json").json
    (at,) = [point["total_tokens"] for point in before if point["name"] == "step-1"]
    done = call("runs", "fork", "one", "--at", "step-1", "--run-id", "two")
    assert 0 < at < used
    assert f"out; {used - at} of them new), " in done.err
    assert f"out; {used - at} of them new), " in call("runs", "show", "two").out
    assert "of them new" not in call("runs", "show", "one").out


def test_a_fork_has_the_recorded_team_and_says_so_in_its_help(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    (team / "team.yaml").write_text((team / "team.yaml").read_text().replace("critic", "editor"))
    done = call("runs", "fork", "one", "--at", "step-1", "--run-id", "two")
    assert (done.code, "asked again" in done.err) == (0, False)
    assert "critic" in call("runs", "show", "two").out
    said = " ".join(call("runs", "fork", "--help").out.split())
    assert "a manifest that was edited since is not read" in said


def test_tail_continues_from_any_event_number(call: Call, team: Path) -> None:
    call("run", team, "Explain", "--run-id", "one")
    every = call("runs", "show", "one", "--follow", "--events").lines
    for after in range(len(every) + 1):
        assert call("runs", "show", "one", "--follow", "--events", "--after", after).lines == every[after:]
    assert call("runs", "show", "one", "--follow", "--after", 99).code == 2
    text = call("runs", "show", "one", "--follow").out
    assert "writer      ▸ A B-tree" in text
    assert text.splitlines()[-1].startswith("completed")
    assert call("runs", "show", "one", "--follow", "--json").json["status"] == "completed"


def test_a_question_pauses_the_run_until_it_is_answered(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", ASKING)
    asked = call("run", team, "Paint it", "--run-id", "one")
    assert asked.code == 7
    assert "Which colour? [red / blue]" in asked.err
    assert "runs answer one" in asked.err
    assert "open question" in call("runs", "show", "one").out
    assert call("runs", "resume", "one").code == 7
    assert call("runs", "answer", "one", "green").code == 2
    assert call("runs", "answer", "one", "red", "--key", "wrong").code == 2
    answered = call("runs", "answer", "one", "red")
    assert answered.code == 0
    assert "runs resume one" in answered.err
    done = call("runs", "resume", "one")
    assert (done.code, done.out) == (0, "It is red.\n")
    assert "was answered: red" in call("runs", "show", "one").out
    assert call("runs", "answer", "one", "red").code == 2


def test_following_a_run_that_was_paused_and_resumed_shows_all_of_it(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", ASKING)
    call("run", team, "Paint it", "--run-id", "one")
    call("runs", "answer", "one", "red")
    call("runs", "resume", "one")
    kinds = [event["kind"] for event in call("runs", "show", "one", "--follow", "--events").lines]
    assert "run.paused" in kinds
    assert kinds[-1] == "run.ended"


def test_cancel_is_final(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "team", ASKING)
    call("run", team, "Paint it", "--run-id", "one")
    done = call("runs", "cancel", "one", "changed my mind", "--json")
    assert done.code == 0
    assert done.json["status"] == "cancelled"
    assert call("runs", "resume", "one").code == 1
    assert call("runs", "cancel", "one").code == 1
    assert "The run was cancelled." in call("runs", "show", "one").out


def test_an_export_holds_every_body_that_an_event_refers_to(call: Call, team: Path, tmp_path: Path) -> None:
    call("run", team, "Explain B-trees", "--run-id", "one")
    document = call("runs", "export", "one").json
    assert document["result"]["run_id"] == "one"
    assert document["manifest"]["team"] == "report"
    assert document["task"] == "Explain B-trees"
    returned = [event for event in document["events"] if event["kind"] == "agent.returned"]
    assert {document["bodies"][event["body"]] for event in returned} == {
        "A B-tree keeps its keys sorted.\nIts nodes are wide.\n", "That is right, and short.",
    }  # fmt: skip
    assert call("runs", "export", "one", "--out", tmp_path / "one.json").out == ""
    assert (tmp_path / "one.json").read_text().startswith("{")


def test_delete_takes_what_has_ended_and_says_what_it_gave_back(call: Call, team: Path, tmp_path: Path) -> None:
    waiting = write_team(tmp_path / "team", ASKING)
    call("run", waiting, "Paint it", "--run-id", "waiting")
    for name in ("one", "two", "three"):
        call("run", team, "Explain", "--run-id", name)
    assert call("runs", "delete", "--keep", 0).code == 2
    assert call("runs", "delete", "--keep", "1h", "--yes", "--json").json["deleted"] == []
    dry = call("runs", "delete", "--keep", 1, "--json").json
    assert dry == {"deleted": ["two", "one"], "freed_bytes": 0, "dry_run": True}
    done = call("runs", "delete", "--keep", 1, "--yes")
    assert "2 runs deleted" in done.out
    assert [run["id"] for run in call("runs", "list", "--json").json] == ["three", "waiting"]
    assert call("runs", "delete", "--status", "paused", "--yes", "--json").json["deleted"] == ["waiting"]
    assert "writer said" in call("runs", "show", "three").out


def test_delete_removes_one_run_for_good_and_leaves_what_others_refer_to(
    call: Call, team: Path, tmp_path: Path
) -> None:
    waiting = write_team(tmp_path / "team", ASKING)
    call("run", waiting, "Paint it", "--run-id", "waiting")
    for name in ("one", "two"):
        call("run", team, "Explain", "--run-id", name)
    refused = call("runs", "delete", "one")
    assert (refused.code, refused.out) == (2, "1 run would be deleted\none\n")
    assert "add --yes" in refused.err
    done = call("runs", "delete", "one", "--yes", "--json").json
    assert (done["deleted"], done["dry_run"]) == (["one"], False)
    assert call("runs", "show", "one").code == 2
    assert call("runs", "delete", "waiting", "--yes").out.startswith("1 run deleted")
    assert "writer said" in call("runs", "show", "two").out
    assert [run["id"] for run in call("runs", "list", "--json").json] == ["two"]


def test_delete_needs_one_run_or_what_the_runs_have_in_common(call: Call) -> None:
    for arguments in ((), ("--yes",), ("one", "--keep", 1)):
        refused = call("runs", "delete", *arguments)
        assert (refused.code, "--keep" in refused.err) == (2, True)


@pytest.mark.parametrize("age", ["7x", "d", "-1d", "7 years", ""])
def test_an_age_that_is_none_is_refused(call: Call, age: str) -> None:
    done = call("runs", "delete", f"--keep={age}")
    assert done.code == 2
    assert "7d" in done.err
