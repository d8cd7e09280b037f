"""`runs answer`: what is open is listed with what to type, decisions and texts reach the question that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Context, Engine, Event, FunctionAgent, Turn
from teamwright.cli.runs.answer import AnswerOptions, OpenQuestions
from teamwright.errors import UsageError
from teamwright.people import Question
from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  writer: {model: scripted:replies.yaml, confirm: {after: true}}
  clerk: {model: scripted:replies.yaml, confirm: {before: true}}
  sender: {model: scripted:replies.yaml, tools: ["tests.cli.people:send"], confirm: {tools: [send]}}
teams:
  letters:
    strategy: dag
    members: [writer, clerk, sender]
    dag: {steps: [{id: writer}, {id: clerk}, {id: sender}]}
"""
REPLIES = """\
rules:
  - {agent: writer, reply: Dear all.}
  - {agent: clerk, reply: Filed.}
  - {agent: sender, match: "# tool send", reply: Sent.}
  - {agent: sender, tool: {name: send, args: {to: ada}}}
"""
KEYS = ("letters/clerk/work/confirm-before", "letters/sender/work/tool-1/confirm", "letters/writer/work/confirm-after")


@pytest.fixture
def waiting(call: Call, tmp_path: Path) -> None:
    """A run that waits for three answers at once."""
    team = write_team(tmp_path / "letters", TEAM, REPLIES)
    assert call("run", team, "Write", "--run-id", "one").code == 7


@pytest.mark.usefixtures("waiting")
def test_several_open_questions_are_listed_with_what_to_type(call: Call) -> None:  # P-12
    listed = call("runs", "answer", "one").out
    for key in KEYS:
        assert f"teamwright runs answer one --key {key} approve" in listed
    assert "  | Dear all." in listed
    assert '"to": "ada"' in listed
    assert "then: teamwright runs resume one" in listed
    told = call("runs", "answer", "one", "--json").json
    assert sorted(question["key"] for question in told["questions"]) == sorted(KEYS)
    assert told["resume"] == "teamwright runs resume one"


@pytest.mark.usefixtures("waiting")
def test_the_next_steps_of_a_run_that_waits_name_each_question(call: Call) -> None:
    paused = call("runs", "resume", "one", "--json")
    assert (paused.code, sorted(paused.json["questions"])) == (7, sorted(KEYS))
    for key in KEYS:
        assert f"answer with: teamwright runs answer one --key {key} approve" in paused.err


@pytest.mark.usefixtures("waiting")
def test_questions_are_answered_in_any_order_and_resumed_in_between(call: Call, tmp_path: Path) -> None:  # P-12
    clerk, sender, writer = KEYS
    ambiguous = call("runs", "answer", "one", "approve")
    assert ambiguous.code == 2
    assert "choose one with --key" in ambiguous.err
    (tmp_path / "letter.txt").write_text("Dear friends.")
    edited = call("runs", "answer", "one", "edit", "--key", writer, "--file", tmp_path / "letter.txt", "--json")
    assert edited.json == {"run_id": "one", "key": writer, "answer": "edit", "data": "Dear friends."}
    assert call("runs", "resume", "one").code == 7
    assert call("runs", "answer", "one", "--key", sender, "edit", "to bo").code == 2
    assert call("runs", "answer", "one", "--key", sender, "edit", '{"to": "bo"}').code == 0
    assert "answered: edit" in call("runs", "answer", "one").out
    rest = call("runs", "answer", "one", "reject", "not needed", "--by", "Ada")
    assert rest.out == f"answered {clerk}\n"
    done = call("runs", "resume", "one", "--json")
    assert done.json["failure"]["error"] == "rejected"
    said = {message["name"]: message["content"] for message in done.json["messages"]}
    assert said == {"writer": "Dear friends.", "sender": "Sent."}
    story = call("runs", "show", "one").out
    assert "was answered by Ada: reject (not needed)" in story
    assert call("runs", "answer", "one").code == 2


def test_an_edit_comes_from_stdin(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "letters", TEAM, REPLIES)
    call("run", team, "Write", "--run-id", "one", "--team", "writer")
    assert call("runs", "answer", "one", "edit", "--file", "-", stdin="Dear sir.").code == 0
    assert call("runs", "resume", "one").out == "Dear sir.\n"


def test_answers_that_say_two_things_are_refused() -> None:
    with pytest.raises(UsageError, match="TEXT and --file are different answers"):
        AnswerOptions("edit", "no", edit_file="letter.txt").to_answer()
    with pytest.raises(UsageError, match="--file is the text of the answer 'edit'"):
        AnswerOptions("approve", edit_file="letter.txt").to_answer()
    with pytest.raises(UsageError, match="name another file"):
        AnswerOptions("edit", edit_file="no/such/file").to_answer()
    assert AnswerOptions().to_answer() is None


def test_a_run_is_paused_where_no_person_can_be_asked(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "letters", TEAM, REPLIES)
    done = call("run", team, "Write", "--run-id", "one", "--team", "writer", "--no-input")
    assert done.code == 7
    assert "May this reply of 'writer' stand? [approve / edit / reject]" in done.err
    assert "Dear all." in done.err


@pytest.mark.usefixtures("waiting")
def test_an_export_holds_the_drafts_that_people_were_asked_about(call: Call) -> None:
    document = call("runs", "export", "one").json
    drafts = [event["draft"] for event in document["events"] if event["kind"] == "person.asked"]
    assert {document["bodies"][draft] for draft in drafts} >= {"Dear all.", "Write"}


async def test_a_run_that_is_under_way_need_not_be_resumed() -> None:
    async def ask(turn: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="Which?"), key="q")).text

    async with Engine("memory") as engine:
        handle = await engine.start(FunctionAgent("a", ask), "go", run_id="r")
        handle.set_interactive(True)
        async for item in engine.runs.follow("r"):
            if isinstance(item, Event) and item.kind == "person.asked":
                break
        assert "resume" not in (await OpenQuestions.load(engine, "r")).to_text()
        handle.set_interactive(False)
        await handle.result()
        assert "then: teamwright runs resume r" in (await OpenQuestions.load(engine, "r")).to_text()


@pytest.mark.usefixtures("waiting")
def test_a_question_whose_answer_waits_is_not_open_any_more(call: Call) -> None:  # M-10
    clerk, *others = KEYS
    assert "paused (approval)" in call("runs", "list").out
    call("runs", "answer", "one", "--key", clerk, "approve", "--by", "Ada")
    shown = call("runs", "show", "one")
    assert f"open question {clerk}" not in shown.out
    assert f"question {clerk}" in shown.out
    assert "answered: approve, by Ada; resume the run to use it" in shown.out
    assert f"runs answer one --key {clerk}" not in shown.out
    assert all(f"open question {key}" in shown.out for key in others)
    told = call("runs", "show", "one", "--json").json["questions"]
    assert {key: question["answer"] is not None for key, question in told.items()} == {
        clerk: True, others[0]: False, others[1]: False,
    }  # fmt: skip
    assert "paused (approval)" in call("runs", "list").out
    assert f"change it with: teamwright runs answer one --key {clerk}" in call("runs", "answer", "one").out


@pytest.mark.usefixtures("waiting")
def test_a_run_whose_questions_are_all_answered_only_has_to_be_resumed(call: Call, tmp_path: Path) -> None:  # M-10
    for key in KEYS:
        call("runs", "answer", "one", "--key", key, "approve")
    shown = call("runs", "show", "one").out
    assert "open question" not in shown
    assert "resume with: teamwright runs resume one" in shown
    assert "answer with" not in shown
    assert "paused (answered)" in call("runs", "list").out
    (listed,) = call("runs", "list", "--json").json
    assert (listed["status"], listed["stop_reason"], listed["answered"]) == ("paused", "approval", True)
    assert "all answered, resume with: teamwright runs resume one" in call("runs", "answer", "one").out
    again = call("run", tmp_path / "letters" / "team.yaml", "Write", "--run-id", "one", "--json")
    assert again.code == 7
    assert "questions" not in again.json
    assert "answer with" not in again.err
    done = call("runs", "resume", "one", "--quiet")
    assert done.code == 0
    (listed,) = call("runs", "list", "--json").json
    assert "answered" not in listed


REVIEWED = """\
agents:
  writer:
    model: scripted:replies.yaml
    evaluate: {on_failure: ask, criteria: [{id: cites, contains: "[1]"}]}
teams:
  note: {members: [writer]}
"""


@pytest.mark.experts
@pytest.mark.parametrize(
    ("answer", "code", "output"),
    [
        (("accept",), 0, "It rains."),
        (("revise", "cite it"), 0, "It rains [1]."),
        (("stop", "--by", "Ann"), 1, None),
    ],
    ids=["accept", "revise", "stop"],
)
def test_a_review_that_exceeded_is_decided_with_a_word(
    call: Call, tmp_path: Path, answer: tuple[str, ...], code: int, output: str | None
) -> None:
    rules = """rules: [{match: "says: cite it", reply: "It rains [1]."}, {reply: It rains.}]"""
    team = write_team(tmp_path / "note", REVIEWED, rules)
    paused = call("run", team, "Write", "--run-id", "one")
    assert (paused.code, paused.out) == (7, "")
    assert 'teamwright runs answer one accept   (or revise "…", or stop)' in paused.err
    assert "  | It rains." in call("runs", "answer", "one").out
    assert call("runs", "answer", "one", *answer).code == 0
    done = call("runs", "resume", "one", "--json")
    assert (done.code, done.json["output"] if output else None) == (code, output)


def test_a_second_text_belongs_to_a_rejection_a_revision_or_an_edit() -> None:
    with pytest.raises(UsageError, match="A second text belongs to the answers 'reject', 'revise' and 'edit'"):
        AnswerOptions("accept", "x").to_answer()


def test_the_word_of_an_edit_alone_is_an_answer_like_any_other() -> None:
    answer = AnswerOptions("edit").to_answer()
    assert answer is not None
    assert (answer.text, answer.data) == ("edit", None)
