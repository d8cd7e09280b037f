"""The lab's options at their edges: whatever is given, there is a report or a refusal in words, and never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from teamwright.errors import UsageError
from teamwright.lab import compare, evaluate, sweep
from tests.kit.terminal import Call, Called

EDGES = ("0", "1", "-1", "-0", "0.5", "2", "nan", "inf", "-inf", "1e308", "1e-320", "9" * 20, "", "abc", "0x10")
NUMBERS = (
    "tasks", "avg_task_tokens", "coordination_rounds", "max_coordination_ratio", "min_pass_rate", "max_p95_latency",
)  # fmt: skip
COMMANDS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "evaluate": (evaluate, ("evaluate",)),
    "compare": (compare, ("evaluate", "--protocol", "all")),
    "sweep": (sweep, ("evaluate", "--workload", "all")),
}
"""Each function of the lab, and the command that calls it."""
SIZES: tuple[tuple[str, ...], ...] = (
    (),
    ("--coordination-rounds", "0"),
    ("--tasks", "1", "--avg-task-tokens", "1", "--coordination-rounds", "0"),
    ("--tasks", "10000000", "--avg-task-tokens", "100000000", "--coordination-rounds", "1000000"),
)
TEAM = """\
agents: {a: {model: scripted:replies.yaml}, b: {model: scripted:replies.yaml}, lead: {model: scripted:replies.yaml}}
teams:
  star:
    strategy: star_team
    members: [lead, a, b]
    star_team: {lead: lead, steps: [{id: x, task: do}, {id: y, task: do}, {id: z, task: do}]}
"""


def profile(folder: Path, **numbers: float) -> Path:
    """A calibration of all topologies with the same numbers."""
    fit: dict[str, Any] = {"runs": 3, "steps": 3, **numbers}
    names = ("single", "lead_subagent", "star_team", "mesh_team")
    file = folder / "profile.json"
    file.write_text(json.dumps({"version": 1, "topologies": dict.fromkeys(names, fit)}))
    return file


@pytest.fixture
def team(tmp_path: Path) -> Path:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]")
    (tmp_path / "team.yaml").write_text(TEAM)
    return tmp_path / "team.yaml"


def taken_or_refused(command: Callable[..., Any], option: str, value: str) -> Any:
    """The report, or the words of the refusal."""
    try:
        return command(**{option: value})
    except UsageError as error:
        return str(error)


def assert_in_words(done: Called, *arguments: object) -> None:
    """Either a report, or a refusal that says as data what is wrong."""
    assert done.code in {0, 2}, (arguments, done.err)
    assert "unexpected" not in done.err, (arguments, done.err)
    if done.code == 2:
        error = done.json["error"]
        assert error["problems"], arguments
        assert all(problem["message"] for problem in error["problems"]), arguments
    else:
        assert "NaN" not in done.out, arguments
        assert "Infinity" not in done.out, arguments


@pytest.mark.parametrize("command", COMMANDS)
def test_every_number_is_taken_or_refused_with_a_clear_message(call: Call, command: str) -> None:  # M-08
    for option in NUMBERS:
        for edge in EDGES:
            found = taken_or_refused(COMMANDS[command][0], option, edge)
            if isinstance(found, str):
                assert found.startswith(f"{option} is "), (option, edge)
                continue
            assert "nan" not in str(found).lower(), (option, edge)
            json.dumps(found.to_json(), allow_nan=False)
    for option in ("--gate", "--topology"):
        assert_in_words(call("lab", *COMMANDS[command][1], option, "nan", "--json"), command, option)


@pytest.mark.parametrize("edge", ["0:5", "5:1", "1:2:0", "8,,9", ",", ":", "1:99999999999", "-3:3", "all", "1:2:3:4"])
def test_every_range_is_taken_or_refused_with_a_clear_message(call: Call, edge: str) -> None:
    assert_in_words(call("lab", "evaluate", "--tasks", edge, "--json"), edge)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("size", SIZES, ids=["usual", "no rounds", "nothing", "most"])
def test_a_profile_in_which_nothing_takes_time_or_tokens_is_no_crash(
    call: Call, tmp_path: Path, command: str, size: tuple[str, ...]
) -> None:  # M-08
    zero = dict.fromkeys(("execution", "messages", "summary", "seconds_per_task", "seconds_per_message"), 0.0)
    for numbers in (zero, {"seconds_per_task": 0.0}, dict.fromkeys(zero, 1000.0), {"cache": -1.0, "pass_rate": -1.0}):
        file = profile(tmp_path, **numbers)
        for form in ("--json", "--gate=p95_latency_s<=1"):
            done = call("lab", *COMMANDS[command][1], "--profile", file, *size, form)
            assert done.code == 0, (numbers, done.err)
            assert "nan" not in done.out.lower()


@pytest.mark.parametrize(
    "numbers",
    [{"execution": 1e300}, {"seconds_per_task": -1.0}, {"messages": float("nan")}, {"summary": float("inf")},
     {"seconds_per_message": 1e300}, {"cache": 5.0}, {"pass_rate": float("nan")}],
)  # fmt: skip
def test_a_profile_with_impossible_numbers_is_refused(call: Call, tmp_path: Path, numbers: dict[str, float]) -> None:
    done = call("lab", "evaluate", "--profile", profile(tmp_path, **numbers), "--json")
    assert done.code == 2, done.err
    assert "is not a calibration" in done.err


@pytest.mark.parametrize(
    ("option", "gate", "refused", "taken", "words"),
    [
        (
            "max_coordination_ratio",
            "coordination_ratio<=",
            ("0", "1", "-0.1", "1.1"),
            ("0.0001", "0.9999"),
            "above 0 and below 1",
        ),
        ("min_pass_rate", "pass_rate>=", ("0", "1", "-0.1", "1.1"), ("0.0001", "0.9999"), "above 0 and below 1"),
        ("max_p95_latency", "p95_latency_s<=", ("0", "-1", "inf"), ("0.0001", "1e9"), "above 0"),
    ],
)
def test_the_bounds_of_gates_are_exclusive(
    call: Call, option: str, gate: str, refused: tuple[str, ...], taken: tuple[str, ...], words: str
) -> None:  # M-08
    for command, _ in COMMANDS.values():
        for value in refused:
            with pytest.raises(UsageError, match=f"expected a number {words}"):
                command(**{option: float(value)})
        for value in taken:
            command(**{option: float(value)})
    assert call("lab", "evaluate", "--gate", f"{gate}{refused[0]}").code == 2


def test_every_mistake_is_a_separate_problem(call: Call) -> None:  # M-08
    done = call("lab", "evaluate", "--tasks", 0, "--gate", "pass_rate>=2", "--json")
    assert [problem["message"].split(",")[0] for problem in done.json["error"]["problems"]] == [
        "tasks is '0'",
        "min_pass_rate is '2'",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["lab", "evaluate", "--no-such-option"], ["lab", "simulate"], ["lab", "calibrate"], ["runs", "show", "nobody"],
        ["runs", "list", "--status", "odd"], ["runs", "resume", "nobody"], ["run", "nowhere.yaml", "x"],
        ["plan", "nowhere.yaml"], ["show", "nowhere.yaml"], ["validate", "nowhere.yaml"],
        ["lab", "evaluate", "--profile", "nobody"], ["lab", "evaluate", "--profile", "nowhere/x.json"],
    ],
)  # fmt: skip
def test_a_json_error_of_any_command_has_its_problems(call: Call, arguments: list[str]) -> None:  # M-08
    done = call(*arguments, "--json")
    assert done.code != 0
    (problem, *_) = done.json["error"]["problems"]
    assert set(problem) == {"file", "line", "column", "message", "suggestion"}
    assert problem["message"]


def test_the_gate_that_fails_is_named(call: Call) -> None:  # M-08
    table = [line.split() for line in call("lab", "evaluate").out.splitlines()]
    (single,) = [line for line in table if line[:1] == ["single"]]
    assert single[-2:] == ["pass", "rate"]


@pytest.mark.parametrize("rounds", ["0", "1000000", "1000001", "-1", "99999999999999999999", "x"])
def test_calibrating_and_evaluating_with_any_number_of_rounds(call: Call, team: Path, rounds: str) -> None:  # M-08
    for _ in range(2):
        assert call("run", team, "go", "--quiet").code == 0
    done = call("lab", "calibrate", "--coordination-rounds", rounds, "--json")
    assert_in_words(done, rounds)
    if done.code == 0:
        assert call("lab", "evaluate", "--profile", "default", "--coordination-rounds", "0").code == 0
        assert call("lab", "advise", team, "x", "--profile", "default").code == 0


def test_times_of_scripted_runs_are_not_fitted_and_it_says_so(call: Call, team: Path) -> None:  # M-08
    for _ in range(3):
        assert call("run", team, "go", "--quiet").code == 0
    done = call("lab", "calibrate", "--json")
    (note,) = done.json["notes"]
    assert note.startswith("star_team: times are not fitted")
    fit = done.json["calibration"]["topologies"]["star_team"]
    assert "seconds_per_task" not in fit
    assert "seconds_per_message" not in fit
    assert note in call("lab", "calibrate").out
