"""`teamwright ask` in a terminal: who takes a task and why, and that a person may see and change it first."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from teamwright.testing.model_server import ModelServer, Say
from tests.cli.test_question_prompt import Terminal
from tests.kit.program import Program
from tests.kit.terminal import Call

pytestmark = pytest.mark.experts

REPLIES = """\
rules:
  - agent: ask-roles
    reply: >-
      {"roles": [{"name": "architect", "template": "architect", "task": "Design it."},
      {"name": "tax_lawyer", "description": "Knows tax law.", "instructions": "Check it.", "reason": "tax matters"}]}
  - {agent: ask-complexity, reply: '{"complexity": 0.71, "reason": "two fields"}'}
  - match: You judge the work below
    json: {criteria: [{id: task, passed: true, reason: It is so.}, {id: grounded, passed: true, reason: It is so.}]}
  - {agent: assistant, reply: Alone.}
  - {agent: tax_lawyer, reply: Tax is fine.}
  - {agent: architect, match: Tax is fine, reply: "A design, and tax is fine."}
  - {reply: Done.}
"""
MIDDLE = "Design a pricing API, implement it, document it, and let a second pair of eyes review its security."


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    return "scripted:replies.yaml"


def test_a_simple_question_stays_with_one_agent_and_says_so(call: Call, model: str) -> None:
    done = call("ask", "What is 2 + 2?", "-m", model)
    assert (done.code, done.out) == (0, "Alone.\n")
    assert "one agent is enough: complexity 0.04" in done.err
    assert "is at most 0.35" in done.err


def test_a_team_is_formed_by_a_model_and_recorded(call: Call, model: str) -> None:  # A-11 A-12
    done = call("ask", "@team Design a shop", "-m", model, "--json", "--run-id", "r")
    assert (done.code, done.json["output"]) == (0, "A design, and tax is fine.")
    routing = done.json["routing"]
    assert (routing["mode"], routing["decided_by"]) == ("team", "request")
    assert routing["formation"] == {
        "how": "automatic",
        "roles": [
            {"name": "architect", "origin": "template", "template": "architect", "reason": ""},
            {"name": "tax_lawyer", "origin": "written", "template": None, "reason": "tax matters"},
        ],
        "warnings": [],
    }
    assert "tax_lawyer" in done.err
    assert "written for this run" in done.err
    again = call("ask", "@team Design a shop", "-m", model, "--json", "--run-id", "r")
    assert (again.code, again.json["run_id"], again.json["output"]) == (0, "r", "A design, and tax is fine.")
    assert "exists already" in again.err
    other = call("ask", "@team Design a school", "-m", model, "--json", "--run-id", "r")
    assert (other.code, other.json["error"]["kind"]) == (2, "RunExists")
    assert "its task, 'Design a shop' there and 'Design a school' here" in other.err
    assert {one["id"] for one in call("runs", "list", "--json").json} == {"r", "r.roles"}


def test_runs_show_tells_how_the_team_was_formed(call: Call, model: str) -> None:
    formed = call("ask", "@team:analyst,barista Plan a café", "-m", model, "--json", "--run-id", "r").json["routing"]
    assert call("runs", "show", "r", "--json").json["formation"] == formed["formation"]
    shown = call("runs", "show", "r").out
    assert "Who was asked to work on it" in shown
    assert [line.split() for line in shown.splitlines() if "made up" in line or "leads" in line][:2] == [
        ["analyst", "leads", "from", "the", "template", "analyst"],
        ["barista", "made", "up"],
    ]


def test_named_experts_form_the_team_and_an_unknown_one_is_made_up(call: Call, model: str) -> None:  # A-11 A-12
    done = call("ask", "@team:analyst,barista Plan a café", "-m", model, "--json")
    assert (done.code, done.json["output"]) == (0, "Done.")
    formation = done.json["routing"]["formation"]
    assert [(role["name"], role["origin"]) for role in formation["roles"]] == [
        ("analyst", "template"),
        ("barista", "made_up"),
    ]
    assert "warning   there is no expert template 'barista'; the role was made up for this run" in done.err


def test_a_team_is_only_suggested_unless_the_user_takes_the_suggestion(call: Call, model: str) -> None:
    done = call("ask", MIDDLE, "-m", model, "--json")
    routing = done.json["routing"]
    assert (done.json["output"], routing["mode"], routing["suggests_team"]) == ("Alone.", "agent", True)
    assert (routing["complexity"], routing["threshold"], routing["decided_by"]) == (0.71, 0.7, "model")
    assert "form it with  --yes" in done.err
    taken = call("ask", MIDDLE, "-m", model, "--json", "--yes")
    assert (taken.json["routing"]["mode"], taken.json["output"]) == ("team", "A design, and tax is fine.")


@pytest.mark.lab
def test_without_a_terminal_a_confirmation_pauses_the_run_with_forecast_and_ceiling(
    call: Call, model: str
) -> None:
    done = call("ask", "@team Design a shop", "-m", model, "--confirm", "--json", "--max-tokens", "50000")
    assert (done.code, done.json["status"]) == (7, "paused")
    assert done.json["forecast"]["tokens"].keys() == {"p50", "p90"}
    assert 49_000 < done.json["forecast"]["ceiling"]["tokens"] < 50_000
    (key,) = done.json["questions"]
    assert call("runs", "answer", done.json["run_id"], "yes", "--json").code == 0
    assert call("runs", "resume", done.json["run_id"], "--json").json["output"] == "A design, and tax is fine."
    assert key


def test_quiet_prints_the_answer_alone(call: Call, model: str) -> None:
    done = call("ask", "@team:editor Edit", "-m", model, "--quiet")
    assert (done.out, done.err) == ("Done.\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("@team",), "There is no task"),
        (("@team:a.b Do it",), "'a.b' is no name of an expert"),
        ((), "There is no task"),
        (("Do it", "--max-tokens", "0"), "must be at least 1"),
    ],
)
def test_what_can_t_be_meant_exits_with_2(arguments: tuple[str, ...], said: str, call: Call, model: str) -> None:
    #
    done = call("ask", *arguments, "-m", model)
    assert done.code == 2
    assert said in done.err


def test_an_own_template_is_used_by_name(call: Call, model: str, tmp_path: Path) -> None:  # A-02 A-11
    (tmp_path / "experts").mkdir()
    (tmp_path / "experts" / "barista.yaml").write_text("persona: You know coffee.\n", encoding="utf-8")
    done = call("ask", "@team:barista Brew", "-m", model, "--json")
    (role,) = done.json["routing"]["formation"]["roles"]
    assert (role["origin"], role["template"]) == ("template", "barista")


@pytest.mark.lab
def test_in_a_terminal_a_formed_team_is_shown_with_its_plan_and_price_and_asks_once(model: str) -> None:
    """A-12 A-13"""
    terminal = Terminal("ask", "@team Design a shop. Which rooms? Which taxes?", "-m", model, "--max-tokens", "50000")
    terminal.until("May this team begin?")
    terminal.until("yes / edit / no / later> ")
    terminal.types("yes\n")
    code, out = terminal.ended()
    assert (code, out.strip()) == (3, "A design, and tax is fine.")  # the script judges no part of the task
    shown = terminal.shown
    for line in (
        "team      architect   leads  from the template architect",
        "          tax_lawyer         written for this run         tax matters",
        "plan      1  tax_lawyer works on the task",
        "          2  architect puts the results together into the answer",
        "review    the answer, by tax_lawyer: 4 criteria, 2 of them parts of the task; at most one revision",
        "tokens    ",
        "ceiling   49,939 tokens, 600 seconds",
    ):
        assert line in shown, line
    assert shown.count("later> ") == 1
    assert '"roles"' not in shown
    assert "review    tax_lawyer judged the answer of architect: it does not pass in attempt 2" in shown


@pytest.mark.lab
@pytest.mark.parametrize(("said", "answer"), [("yes", "A design, and tax is fine."), ("alone", "Alone.")])
def test_in_a_terminal_a_team_that_is_suggested_is_offered(said: str, answer: str, model: str) -> None:  # A-12 A-13
    terminal = Terminal("ask", MIDDLE, "-m", model)
    terminal.until("yes / alone / edit / no / later> ")
    terminal.types(f"{said}\n")
    code, out = terminal.ended()
    assert (code, out.strip()) == (0, answer)


def test_with_yes_nothing_is_asked_in_a_terminal(model: str) -> None:
    terminal = Terminal("ask", "@team Design a shop", "-m", model, "--yes")
    code, out = terminal.ended()
    assert (code, out.strip()) == (0, "A design, and tax is fine.")
    assert "later> " not in terminal.shown


def test_the_output_says_who_judged_the_answer(call: Call, model: str) -> None:  # A-05 A-11
    done = call("ask", "@team Design a shop", "-m", model, "--json")
    assert done.json["review"] == {
        "judges": ["tax_lawyer"],
        "author": "architect",
        "attempts": 1,
        "outcome": "pass",
        "score": 1.0,
    }
    assert "review    tax_lawyer judged the answer of architect: it passes, 3 of 3 criteria, score 1.00" in done.err
    alone = call("ask", "What is 2 + 2?", "-m", model, "--json")
    assert alone.json["review"] is None
    assert call("ask", "@team Design a shop", "-m", model, "-q").err == ""


def test_a_formed_team_is_steered_from_another_process_while_it_runs(
    call: Call, model: str, tmp_path: Path
) -> None:  # A-10 A-11 A-13
    slow = REPLIES.replace(
        "  - {agent: tax_lawyer,", "  - {agent: notary, reply: Signed.}\n  - {agent: tax_lawyer, delay: 8,"
    )
    (tmp_path / "replies.yaml").write_text(slow, encoding="utf-8")
    (tmp_path / "notary.yaml").write_text("agents: {notary: {model: 'scripted:replies.yaml'}}\n", encoding="utf-8")
    check = {"id": "check", "agent": "notary", "task": "Sign it.", "needs": ["tax_lawyer"]}
    answer = {"id": "answer", "role": "architect", "required": True, "needs": ["tax_lawyer", "check"]}
    (tmp_path / "change.json").write_text(json.dumps({"put": [check, answer]}), encoding="utf-8")
    arguments = ("ask", "@team Design a shop", "-m", model, "--json", "--run-id", "r")
    with Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asked:
        while "step tax_lawyer starts" not in call("runs", "show", "r").out:
            assert asked.poll() is None
            time.sleep(0.1)
        added = call("runs", "steer", "r", "add", "notary", "--from", "notary.yaml", "--json")
        assert (added.code, added.json["status"]) == (0, "accepted")
        edited = call("runs", "steer", "r", "plan", "--file", "change.json", "--yes", "--json")
        assert (edited.code, edited.json["status"]) == (0, "accepted")
        out, err = asked.communicate(timeout=50)
    assert asked.returncode == 0, err
    result = json.loads(out)
    said = [message["content"] for message in result["messages"]]
    assert said == ["Tax is fine.", "Signed.", "A design, and tax is fine."]


@pytest.mark.lab
def test_a_person_edits_the_team_before_it_begins_and_says_yes(model: str, tmp_path: Path) -> None:  # A-12 A-13
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/tax_lawyer/notary/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    terminal = Terminal("ask", "@team Design a shop", "-m", model, "--confirm", EDITOR=str(editor))
    terminal.until("(p90)")
    terminal.until("yes / edit / no / later> ")
    terminal.types("edit\n")
    terminal.until("notary")
    terminal.until("yes / edit / no / later> ")
    terminal.types("yes\n")
    code, out = terminal.ended()
    assert (code, out.strip()) == (0, "Done.")


@pytest.mark.lab
def test_a_person_says_no_and_nothing_is_spent(model: str, call: Call) -> None:  # A-12 A-13
    terminal = Terminal("ask", "@team:editor Edit", "-m", model, "--confirm")
    terminal.until("yes / edit / no / later> ")
    terminal.types("no\n")
    code, out = terminal.ended()
    assert (code, out) == (6, "")
    (run,) = call("runs", "list", "--json").json
    assert (run["status"], run["total_tokens"]) == ("cancelled", 0)


@pytest.mark.lab
def test_a_decision_that_is_put_off_pauses_the_run(model: str) -> None:  # A-12 A-13
    terminal = Terminal("ask", "@team:editor Edit", "-m", model, "--confirm")
    terminal.until("yes / edit / no / later> ")
    terminal.types("later\n")
    assert terminal.ended() == (7, "")


def test_a_model_at_a_server_answers(call: Call) -> None:
    with ModelServer(lambda request: Say(text=f"I am {request.model}.")) as server:
        for _ in range(2):
            done = call("ask", "What is it?", "-m", f"{server.url}#tiny", "--run-id", "r", "-q")
            assert done.code == 0
            assert "I am tiny." in done.out
        other = call("ask", "What is it?", "-m", f"{server.url}#large", "--run-id", "r", "-q")
    assert (other.code, "its model, 'tiny' there and 'large' here" in other.err) == (2, True)


def test_the_tiny_local_model_says_so_and_how_to_ask_a_real_one(call: Call) -> None:
    done = call("ask", "Say hi.", "--max-tokens", "200")
    assert "This was the small embedded model." in done.err
    assert 'teamwright ask "…" --model openai:gpt-5-mini' in done.err
