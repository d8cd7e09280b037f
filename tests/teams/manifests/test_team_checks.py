"""Checks of a team: members, options, cycles, and the problems that its strategy reports."""

from pathlib import Path

import pytest

from teamwright.strategies.registry import strategy_names
from teamwright.teams.builder import Builder
from teamwright.values.turns.messages import EnvelopeSettings
from tests.teams.manifests.manifests import loaded, only_problem, problems

AGENTS = "agents: {a: {model: local}, b: {model: local}, c: {model: local, tools: [terminate]}}\n"


def relay(options: str, more: str = "") -> str:
    return f"{AGENTS}teams:\n  t: {{strategy: relay-race, members: [a, b], relay_race: {options}}}\n{more}"


def test_an_unknown_strategy_lists_the_known_ones(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: sequental, members: [a]}}")
    known = ", ".join(strategy_names())
    assert problem.message == f"team 't': there is no strategy 'sequental'; known are {known}"
    assert problem.suggestion == "did you mean 'sequential'?"
    assert (problem.line, problem.column) == (2, 23)


@pytest.mark.usefixtures("third_parties")
def test_a_strategy_that_cannot_be_loaded_is_reported_with_its_place(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: broken, members: [a]}}")
    assert "'broken' (tests.nowhere:Gone) can't be loaded" in problem.message
    assert (problem.line, problem.column) == (2, 23)


def test_an_unknown_member_gets_the_nearest_name(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {writer: {model: local}}\nteams: {t: {members: [writr]}}")
    assert problem.message == "team 't': there is no agent or team 'writr'"
    assert "did you mean 'writer'?" in problem.suggestion
    assert "--with FILE" in problem.suggestion


def test_a_member_may_stand_twice_where_the_strategy_allows_it(tmp_path: Path) -> None:
    assert loaded(tmp_path, AGENTS + "teams: {t: {members: [a, b, a]}}").manifest.teams["t"].members == ("a", "b", "a")
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, max_turns: 2, members: [a, b, a]}}")
    assert "one is listed twice" in problem.message
    assert problem.suggestion == "'a' is a member twice"
    assert problem.column == 66


@pytest.mark.parametrize(
    ("teams", "path"),
    [
        ("{t: {members: [t]}}", "t → t"),
        ("{t: {members: [a, u]}, u: {members: [t]}}", "t → u → t"),
        ("{s: {members: [t]}, t: {members: [u]}, u: {members: [v]}, v: {members: [b, t]}}", "t → u → v → t"),
    ],
)
def test_a_cycle_of_teams_is_reported_with_its_path(tmp_path: Path, teams: str, path: str) -> None:
    assert only_problem(tmp_path, AGENTS + f"teams: {teams}").message.endswith(f": {path}")


@pytest.mark.usefixtures("third_parties")
def test_a_cycle_may_go_through_helpers(tmp_path: Path) -> None:
    through = only_problem(tmp_path, relay("{legs: [], coaches: [u]}", "  u: {members: [b, t]}\n"))
    assert through.message == "Teams contain each other: t → u → t"
    assert (through.line, through.column) == (4, 20)
    itself = only_problem(tmp_path, relay("{legs: [], coaches: [t]}"))
    assert itself.message == "team 't' is a helper of itself: t → t"
    assert loaded(tmp_path, relay("{legs: [], coaches: [u, a]}", "  u: {members: [b]}\n"))


def test_teams_that_share_members_are_no_cycle(tmp_path: Path) -> None:
    layers = "".join(f"  t{n}: {{members: [t{n + 1}, u{n + 1}]}}\n  u{n}: {{members: [t{n + 1}]}}\n" for n in range(60))
    teams = f"teams:\n{layers}  t60: {{members: [a]}}\n  u60: {{members: [b]}}\n"
    assert len(loaded(tmp_path, AGENTS + teams).manifest.teams) == 122


def test_a_long_chain_of_teams_exhausts_nothing(tmp_path: Path) -> None:
    chain = "".join(f"  t{n}: {{members: [t{n + 1}]}}\n" for n in range(5000))
    problem = only_problem(tmp_path, f"{AGENTS}teams:\n{chain}  t5000: {{members: [t0]}}\n")
    assert "Teams contain each other" in problem.message


def test_round_robin_needs_an_end(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, members: [a, b]}}")
    assert problem.message == "team 't': 'round_robin' needs max_turns, unless a member has the 'terminate' tool"
    assert (problem.line, problem.column) == (2, 13)
    assert loaded(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, members: [a, c]}}")
    nested = "teams: {t: {strategy: round_robin, members: [a, u]}, u: {members: [c]}}"
    assert "needs max_turns" in only_problem(tmp_path, AGENTS + nested).message


@pytest.mark.parametrize("setting", ["max_turns: 3", "on_max_turns: fail"])
def test_settings_without_effect_are_warned_about(tmp_path: Path, setting: str) -> None:
    (warning,) = loaded(tmp_path, AGENTS + f"teams: {{t: {{{setting}, members: [a]}}}}").warnings
    assert warning.message == f"team 't': {setting.partition(':')[0]!r} changes nothing in a sequential team"
    assert (warning.line, warning.column) == (2, 13)


@pytest.mark.usefixtures("third_parties")
@pytest.mark.parametrize(
    ("options", "told", "there"),
    [
        ("{leg: [], legs: []}", "team 't': 'leg' is not a field here (did you mean 'legs'?)", "leg:"),
        ("{legs: 3}", "'legs' expects a list, found the number 3", "3}"),
        ("{legs: [{from: a}]}", "team 't': 'to' is missing", "{from"),
        ("{legs: [{from: a, to: b, metres: 1000}]}", "'metres' must be less than 1000, and 1000 is not", "1000"),
        ("{legs: [{from: a, to: b, metres: 0}]}", "'metres' must be at least 1, and 0 is not", "0}"),
        ("{legs: [], pace: 0.3}", "pace: must be a multiple of 0.5, and 0.3 is not", "0.3"),
        ("{legs: [], pace: fast}", "'pace' expects a number, found the text 'fast'", "fast"),
        ("{legs: [{from: a, to: bb}]}", "'bb' is not a member of team 't' (did you mean 'b'?)", "bb"),
        ("{legs: [{from: c, to: b}]}", "'c' is not a member of team 't'", "c, to"),
        ("{legs: [], shirts: {x: red}}", "'x' is not a member of team 't' (known are a, b)", "x: red"),
        ("{legs: [], coaches: [a, cc]}", "team 't': there is no agent or team 'cc' (did you mean 'c'? Or", "cc"),
        ("{legs: [{from: b, to: b}]}", "team 't': 'b' hands the baton to itself", "b}"),
        ("[]", "'relay_race' expects a mapping, found a list", "[]}"),
        ("", "'relay_race' expects a mapping, found nothing", "}"),
    ],
)
def test_a_mistake_in_options_is_reported_at_its_place(tmp_path: Path, options: str, told: str, there: str) -> None:
    text = relay(options)
    problem = only_problem(tmp_path, text)
    assert told in str(problem)
    assert problem.line == 3
    assert text.splitlines()[2][problem.column - 1 :].startswith(there)


@pytest.mark.usefixtures("third_parties")
def test_options_that_are_needed_and_missing_are_reported_with_their_form(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {strategy: relay-race, members: [a]}}")
    assert problem.message == "team 't': relay_race needs options, under 'relay_race'"
    assert problem.suggestion == "write  relay_race: {legs: …}"
    assert problem.column == 13


def test_a_strategy_without_options_takes_none(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {members: [a], sequential: {x: 1}}}")
    assert problem.message == "team 't': sequential takes no options"
    assert problem.column == 27
    assert loaded(tmp_path, AGENTS + "teams: {t: {members: [a], sequential: {}}}")


@pytest.mark.usefixtures("third_parties")
def test_every_mistake_of_a_team_is_reported_at_once(tmp_path: Path) -> None:
    text = f"""{AGENTS}teams:
  t:
    strategy: relay-race
    members: [a, b, x, a]
    max_turns: 13
    relay_race:
      agent: nobody
      legs: [{{from: a, to: b}}, {{from: b, to: b}}]
"""
    found = problems(tmp_path, text)
    assert [(one.line, one.column) for one in found] == [(5, 21), (5, 24), (6, 5), (8, 14), (9, 46)]
    assert [one.message.removeprefix("team 't': ") for one in found] == [
        "there is no agent or team 'x'",
        "nobody runs twice",
        "max_turns brings bad luck",
        "there is no agent or team 'nobody'",
        "'b' hands the baton to itself",
    ]


def test_mistakes_in_form_names_and_meaning_are_reported_at_once(tmp_path: Path) -> None:
    text = f"""{AGENTS}teams:
  t:
    strategy: selector
    members: [a, b]
    selector:
      agent: c
      allow_repeat: maybe
      prompt: "{{{{.Foo}}}}"
      edges:
        - {{from: a, to: z}}
  u:
    strategy: dag
    members: [a, b]
    dag:
      max_parallel: 0
      steps:
        - {{id: one, agent: a, needs: [two]}}
        - {{id: ü, agent: b}}
"""
    found = [(one.line, one.message) for one in problems(tmp_path, text)]
    assert [line for line, _ in found] == [4, 8, 9, 11, 16, 18, 19]
    assert "needs max_turns" in found[0][1]
    assert found[3][1] == "'z' is not a member of team 't'"
    assert "'ü' can't name a step" in found[6][1]


def test_a_slip_in_a_members_name_brings_no_further_complaints(tmp_path: Path) -> None:
    text = """agents: {reader: {model: local}, writer: {model: local}, checker: {model: local}}
teams:
  t:
    strategy: graph
    members: [reader, writer, checker]
    graph:
      edges:
        - {from: reader, to: writter}
        - {from: writer, to: checker}
        - {from: checker, to: reader}
"""
    assert [one.message for one in problems(tmp_path, text)] == [
        "team 't': 'graph' needs max_turns, since its edges lead back: reader → writer → checker → reader",
        "'writter' is not a member of team 't'",
    ]


@pytest.mark.usefixtures("third_parties")
@pytest.mark.parametrize(
    ("starter", "kind"),
    [
        ("f: {function: 'm:f', description: Fast}", "function"),
        ("f: {model: scripted:r.yaml, description: Fast}", "scripted"),
        ("f: {model: {model: 'scripted:r.yaml'}, description: Fast}", "scripted"),
    ],
)
def test_a_strategy_receives_what_is_known_of_helpers(tmp_path: Path, starter: str, kind: str) -> None:
    (tmp_path / "r.yaml").write_text("rules: []")
    text = relay("{legs: [], agent: f}").replace("agents: {", f"agents: {{{starter}, ")
    assert f"'f' is of the kind {kind!r} and described as 'Fast'" in only_problem(tmp_path, text).message


@pytest.mark.usefixtures("third_parties")
def test_a_setting_that_is_unreadable_is_reported_once(tmp_path: Path) -> None:
    for setting in ("max_turns: many", "max_turns: 0", "share: all", "on_max_turns: cry"):
        text = AGENTS + f"teams: {{t: {{strategy: round-robin, members: [a, c], {setting}}}}}"
        assert only_problem(tmp_path, text).column > 50


def test_many_mistakes_stay_quick(tmp_path: Path) -> None:
    agents = "".join(f"  agent-{n}: {{model: local}}\n" for n in range(3000))
    members = ", ".join(f"agnet-{n}" for n in range(3000))
    assert len(problems(tmp_path, f"agents:\n{agents}teams: {{t: {{members: [{members}]}}}}")) == 3000


@pytest.mark.usefixtures("third_parties")
def test_many_teams_with_options_stay_quick(tmp_path: Path) -> None:
    agents = "".join(f"  a{n}: {{model: local}}\n" for n in range(3001))
    block = "strategy: relay-race, relay-race: {{legs: [{{from: a{0}, to: a{1}}}]}}"
    teams = "".join(f"  t{n}: {{members: [a{n}, a{n + 1}], {block.format(n, n + 1)}}}\n" for n in range(3000))
    assert len(loaded(tmp_path, f"agents:\n{agents}teams:\n{teams}").manifest.teams) == 3000


def test_a_manifest_says_how_members_write_envelopes(tmp_path: Path) -> None:  # Z-03
    settings = "{length: 600, budget: high, escalate: off}"
    text = f"teams: {{t: {{members: [a, b], share: a2a_lite, envelope: {settings}}}}}"
    found = loaded(tmp_path, AGENTS + text)
    assert found.manifest.teams["t"].envelope == EnvelopeSettings(length=600, budget="high", escalate="off")
    assert not found.warnings
    assert Builder(found.manifest).team("t").settings.envelope == found.manifest.teams["t"].envelope
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {members: [a], share: a2a_lite, envelope: {escalate: boss}}}")
    assert "'escalate' is 'lead' or 'person' or 'off'" in problem.message
    problem = only_problem(tmp_path, AGENTS + "teams: {t: {members: [a], share: a2a_lite, envelope: {length: 8}}}")
    assert "'length' must be at least 16" in problem.message


def test_envelope_settings_that_change_nothing_are_reported(tmp_path: Path) -> None:
    (warning,) = loaded(tmp_path, AGENTS + "teams: {t: {members: [a], envelope: {budget: low}}}").warnings
    assert warning.message == "team 't': 'envelope' changes nothing without  share: a2a_lite"


def test_a_round_robin_that_only_terminate_ends_is_warned_of_its_bound(tmp_path: Path) -> None:  # M-05
    found = loaded(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, members: [a, c]}}")
    (warning,) = found.warnings
    assert warning.message.startswith("team 't': only 'terminate' ends it, so it stops after 1000 turns")
    assert warning.line == 2
    assert not loaded(tmp_path, AGENTS + "teams: {t: {strategy: round_robin, max_turns: 3, members: [a, c]}}").warnings
    bounded = AGENTS + "teams: {t: {strategy: round_robin, round_robin: {turns: 5}, members: [a, b]}}"
    assert not loaded(tmp_path, bounded).warnings


@pytest.mark.parametrize("members", ["a, b", "a, b, c"])
def test_a_selector_team_without_a_selector_is_refused(tmp_path: Path, members: str) -> None:  # M-05
    text = f"{AGENTS}teams: {{t: {{strategy: selector, max_turns: 3, members: [{members}]}}}}"
    assert "needs an agent that chooses" in only_problem(tmp_path, text).message


def test_a_selector_team_of_one_or_along_a_line_needs_no_selector(tmp_path: Path) -> None:  # M-05
    assert loaded(tmp_path, AGENTS + "teams: {t: {strategy: selector, max_turns: 3, members: [a]}}")
    line = "{strategy: selector, max_turns: 3, members: [a, b], selector: {edges: [{from: a, to: b}]}}"
    assert loaded(tmp_path, AGENTS + f"teams: {{t: {line}}}")


DAG = """
agents: {a: {model: local}, b: {model: local}, c: {model: local}}
teams:
  t:
    strategy: dag
    members: [a, b, c]
    dag:
      steps:
        - {id: a}
        - {id: b, needs: [a]}
        - {id: c, needs: [b], FIELD}
"""


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("when: data.a.score > 3", "a"),
        ("when: outputs.a is defined", "a"),
        ("when: \"data['a'].score > 3\"", "a"),
        ("when: \"'a' in failed\"", "a"),
        ("when: \"'a' not in failed and outputs.b\"", "a"),
        ("when: data.b.ok and (data.a | default(0)) > 1", "a"),
        ('task: "{{ outputs.a }}"', "a"),
        ("task: \"{% if data.b %}{{ outputs['a'] }}{% endif %}\"", "a"),
        ("when: data.c.score > 3", "c"),
    ],
)
def test_a_step_that_asks_about_another_outside_its_needs_is_refused(
    tmp_path: Path, field: str, asked: str
) -> None:  # M-09
    problem = only_problem(tmp_path, DAG.replace("FIELD", field))
    hint = "it has no output yet" if asked == "c" else "add it: needs: [b, a]"
    assert problem.message == f"team 't': the step 'c' asks about {asked!r}, which is not among its needs; {hint}"
    assert problem.line == 11


def test_a_step_that_asks_about_what_is_no_step_is_refused(tmp_path: Path) -> None:  # M-09
    problem = only_problem(tmp_path, DAG.replace("FIELD", "when: data.bb.score > 3"))
    assert "the step 'c' asks about 'bb', which is no step that it needs; did you mean 'b'" in problem.message


@pytest.mark.parametrize(
    "field",
    [
        "when: data.b.a > 3",
        "when: \"'a' in outputs.b\"",
        "when: \"task == 'a'\"",
        'task: "{% for data in outputs.b %}{{ data.a }}{% endfor %}"',
        'task: "{{ outputs }}"',
        'when: "failed | length == 0"',
    ],
)
def test_what_looks_like_it_and_asks_about_something_else_is_good(tmp_path: Path, field: str) -> None:  # M-09
    assert loaded(tmp_path, DAG.replace("FIELD", field))


@pytest.mark.parametrize("strategy", ["single", "lead_subagent", "star_team", "mesh_team"])
def test_it_holds_for_every_strategy_with_steps(tmp_path: Path, strategy: str) -> None:  # M-09
    text = DAG.replace("FIELD", "when: data.a.score > 3").replace("dag", strategy)
    assert any("asks about 'a'" in one.message for one in problems(tmp_path, text))


def test_a_member_without_a_step_is_reported(tmp_path: Path) -> None:  # M-09
    text = DAG.replace("- {id: c, needs: [b], FIELD}", "- {id: d, agent: a, needs: [b]}")
    (warning,) = loaded(tmp_path, text).warnings
    assert warning.message.startswith("team 't': no step is assigned to the member 'c'")
    assert warning.line


@pytest.mark.parametrize("files", ["{}", "{agent: a}", "{git: ., folder: .}"])
def test_a_workspace_is_either_a_repository_or_a_folder(tmp_path: Path, files: str) -> None:
    problem = only_problem(tmp_path, AGENTS + f"teams: {{t: {{members: [a], workspace: {files}}}}}")
    assert problem.message == "team 't': 'workspace' needs either 'git' or 'folder'"
    assert problem.line == 2
