"""A recorded run replays as a case, also when it is killed at each write, and whatever differs is found."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright.journal.location import data_folder
from teamwright.testing import CallTools, ModelServer, Say, ToolCall
from teamwright.testing.case_file import ExpectedTokens, LoadedCase, recording_path
from teamwright.testing.case_player import LiveCalls
from teamwright.testing.case_replay import CaseResult, replay_case, run_case
from teamwright.testing.recorded_case import RecordedReply
from tests import cases_campaign
from tests.kit.cases import changed_reply, made_case
from tests.kit.terminal import REPLIES, TEAM, write_team
from tests.paths import EXAMPLES

WRITER, CRITIC = "report/step-1/request-1", "report/step-2/request-1"


@pytest.fixture
def case(team: Path) -> LoadedCase:
    """The case of a team of two."""
    return made_case(team, "Explain B-trees")


def said(result: CaseResult) -> str:
    """What a replay has found."""
    return "\n".join(result.lines())


@pytest.mark.parametrize("name", ["approvals", "dag", "fan_out"])
def test_a_recorded_run_replays_and_ends_the_same_when_it_is_killed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    case = made_case(tmp_path / name, (EXAMPLES / name / "task.txt").read_text())
    result = replay_case(case, kill=True)
    assert said(result) == ""
    assert result.kills > 4
    assert bool(case.case.answers) == (name == "approvals")


@pytest.mark.experts
def test_a_run_that_changed_files_replays_wherever_they_are_now(tmp_path: Path) -> None:
    """Without Git, and with other files: what its tools and merges returned is recorded."""
    shutil.copytree(EXAMPLES / "coding_team", tmp_path / "team")
    case = made_case(tmp_path / "team", "Make the tests of this shop pass.")
    shutil.rmtree(data_folder() / "workspaces")
    (tmp_path / "team" / "shop" / "prices.py").write_text("gone\n")
    result = replay_case(case, kill=True)
    assert said(result) == ""
    assert result.kills > 20
    assert not (data_folder() / "workspaces").exists()
    assert "use  --live all" in said(replay_case(case, LiveCalls(models=True)))


def test_a_run_with_a_budget_replays_what_was_left_of_it(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "budget", tmp_path / "budget")
    case = made_case(tmp_path / "budget", "Answer the mail.")
    assert said(replay_case(case)) == ""
    assert case.case.expect.stop_reason == "budget"
    assert case.recording.turns


def test_another_prompt_is_found_and_shown(case: LoadedCase, team: Path) -> None:
    (team / "team.yaml").write_text(TEAM.replace("Judge.", "Judge kindly."))
    result = replay_case(case)
    assert [one.key for one in result.findings] == [CRITIC]
    assert result.findings[0].text == "the model of 'critic' is sent something else"
    assert {"-Judge.", "+Judge kindly."} <= set(result.findings[0].difference)


def test_another_order_is_found(case: LoadedCase, team: Path) -> None:
    (team / "team.yaml").write_text(TEAM.replace("[writer, critic]", "[critic, writer]"))
    assert f"{WRITER}: the model of 'writer' is sent something else" in said(replay_case(case))


def test_an_unknown_call_shows_the_nearest_and_ends_the_run(case: LoadedCase, team: Path) -> None:
    (team / "team.yaml").write_text(
        TEAM.replace("[writer, critic]", "[writer, critic, writer2]").replace(
            "teams:", "  writer2: {model: primary}\nteams:"
        )
    )
    result = replay_case(case)
    assert "report/step-3/request-1: the case has no reply to this call of model 'scripted'" in said(result)
    assert "the nearest is the model of 'critic'" in said(result)
    assert result.was_halted


def test_a_recorded_reply_that_nobody_asks_for_fails(case: LoadedCase, team: Path) -> None:
    (team / "team.yaml").write_text(TEAM.replace("[writer, critic]", "[writer]"))
    assert f"{CRITIC}: no call asked for the recorded reply of the model of 'critic'" in said(replay_case(case))


def test_another_reply_is_found_by_what_follows_from_it(case: LoadedCase) -> None:
    def other(reply: RecordedReply) -> RecordedReply:
        assert reply.result is not None
        return reply.changed(result=reply.result.changed(value="Trees are green."))

    assert f"{CRITIC}: the model of 'critic' is sent something else" in said(
        replay_case(changed_reply(case, WRITER, other))
    )
    assert "output: the answer differs" in said(replay_case(changed_reply(case, CRITIC, other)))
    assert "no reply to this call" in said(replay_case(changed_reply(case, CRITIC, lambda _: None)))


def test_what_is_expected_is_checked_and_nothing_else(case: LoadedCase) -> None:
    text = case.path.read_text().replace("status: completed", "status: failed").replace("critic: 1", "critic: 2")
    case.path.write_text(text.replace("about: ", "margin: 0.01\n    about: 9"))
    assert said(run_case(case.path)).count("expected") == 3
    case.path.write_text(text[: text.index("expect:")] + "expect: {output: {match: '(?i)right'}}\n")
    assert run_case(case.path).passes


def test_failed_attempts_are_replayed_without_waiting_for_them(tmp_path: Path) -> None:
    replies = "  - {agent: writer, error: rate_limit, times: 1}\n" + REPLIES.partition("\n")[2]
    team = TEAM.replace("Write.", "Write., retry: {times: 2, backoff: 0.2}")
    case = made_case(write_team(tmp_path / "report", team, "rules:\n" + replies), "Explain B-trees")
    assert [one.error for one in case.recording.replies[WRITER].failures] == ["rate_limit"]
    assert replay_case(case, kill=True).passes


def test_functions_are_replayed_too(tmp_path: Path) -> None:
    declared = "agents: {one: {function: 'own:one'}, two: {function: 'own:two'}}\nteams: {t: {members: [one, two]}}"
    folder = write_team(tmp_path / "t", declared, REPLIES)
    code = "def one(task: str) -> str:\n    return 'first'\n\ndef two(turn):\n    return {'a': 1}\n"
    (folder / "own.py").write_text(code)
    case = made_case(folder, "Go")
    (folder / "own.py").write_text(code.replace("return", "raise KeyError"))
    assert case.case.expect.data == {"a": 1}
    assert replay_case(case, kill=True).passes


def test_real_clients_need_neither_their_server_nor_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[CallTools | Say] = iter(
        (
            CallTools(calls=(ToolCall(name="forecast", args={"city": "Bergen"}),)),
            Say(text="It will rain."),
        )
    )
    folder = write_team(tmp_path / "t", "", REPLIES)
    (folder / "sky.py").write_text("def forecast(city: str) -> str:\n    return f'rain over {city}'\n")
    monkeypatch.setenv("OWN_KEY", "sk-very-secret-0123456789")
    with ModelServer(lambda _: next(answers)) as server:
        model = f"{{url: '{server.url}', name: big, api_key: '${{OWN_KEY}}'}}"
        (folder / "team.yaml").write_text(
            "agents: {a: {model: m, instructions: Be brief., tools: [forecast]}}\n"
            f"models: {{m: {model}}}\ntools: {{forecast: 'sky:forecast'}}\n"
        )
        case = made_case(folder, "The weather? sk-very-secret-0123456789")
    monkeypatch.delenv("OWN_KEY")
    (folder / "sky.py").write_text("def forecast(city: str) -> str:\n    raise KeyError(city)\n")
    assert said(replay_case(case, kill=True)) == ""
    written = case.path.read_text() + recording_path(case.path).read_text()
    assert ("rain over Bergen" in written, "very-secret" in written, str(folder) in written) == (True, False, False)
    (folder / "team.yaml").write_text((folder / "team.yaml").read_text().replace("Be brief.", "Be long."))
    assert said(replay_case(case)).count("+Be long.") == 2


def test_runs_of_several_strategies_show_their_mutations(tmp_path: Path) -> None:
    told = Counter[str]()
    for number in (1, 3):
        cases_campaign.check(number, 7, tmp_path / f"team-{number}", told)
    assert (told["prompt: found"], told["missing: found"]) == (2, 2)


def test_a_margin_of_tokens_is_a_share() -> None:
    assert ExpectedTokens(about=100).margin == 0.1
