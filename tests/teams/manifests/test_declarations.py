"""The block of a team that is named like its strategy holds the strategy's options."""

from pathlib import Path

import pytest

from tests.teams.manifests.manifests import loaded, only_problem, problems

AGENTS = "models: {primary: local}\nagents: {a: {model: local}, b: {model: local}, c: {model: local}}\n"

pytestmark = pytest.mark.usefixtures("third_parties")


def team(fields: str) -> str:
    return f"{AGENTS}teams: {{t: {{members: [a, b], {fields}}}}}"


@pytest.mark.parametrize("strategy", ["relay-race", "relay_race"])
@pytest.mark.parametrize("block", ["relay-race", "relay_race"])
def test_a_block_holds_the_options(tmp_path: Path, strategy: str, block: str) -> None:
    text = team(f"strategy: {strategy}, {block}: {{legs: [{{from: a, to: b}}]}}")
    spec = loaded(tmp_path, text).manifest.teams["t"]
    assert spec.options == {"legs": [{"from": "a", "to": "b"}]}
    assert spec.strategy == "relay_race"


def test_options_stand_in_one_place(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, team("strategy: relay-race, relay-race: {legs: []}, relay_race: {legs: []}"))
    assert problem.message == "team 't' has 'relay-race' and 'relay_race'"
    assert problem.suggestion == "keep one: both are its options"


def test_a_strategy_with_a_name_has_no_second_key_for_its_options(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, team("strategy: relay-race, options: {legs: []}"))
    assert problem.message == "team 't': the options of 'relay_race' stand in a block with its name"
    assert problem.suggestion == "write  relay_race:  in place of  options:"


@pytest.mark.parametrize("fields", ["anything: {x: 1}", "strategy: sequential, anything: {}"])
def test_a_block_for_another_strategy_is_a_mistake(tmp_path: Path, fields: str) -> None:
    problem = only_problem(tmp_path, team(fields))
    assert problem.message == "team 't': 'anything' is for another strategy; this team's is 'sequential'"
    assert problem.suggestion == "write  strategy: anything  or remove it"
    assert problem.column > 28


def test_a_misspelt_block_gets_the_nearest_name(tmp_path: Path) -> None:
    found = problems(tmp_path, team("strategy: relay-race, rely_race: {legs: []}"))
    assert "'rely_race' is not a field here (did you mean 'relay_race'?)" in str(found[-1])


def test_the_block_of_a_misspelt_strategy_is_not_reported_as_well(tmp_path: Path) -> None:
    assert (
        "no strategy 'relay-rase'" in only_problem(tmp_path, team("strategy: relay-rase, relay-race: {x: 1}")).message
    )


def test_a_strategy_that_takes_anything_gets_it(tmp_path: Path) -> None:
    found = loaded(tmp_path, team("strategy: anything, anything: {depth: 3, of: [{x: null}]}"))
    assert found.manifest.teams["t"].options == {"depth": 3, "of": [{"x": None}]}


@pytest.mark.parametrize("model", ["primary", "openai:gpt-5-mini", "{url: 'http://localhost:1/v1', name: x}"])
def test_a_model_in_place_of_an_agent_becomes_a_helper(tmp_path: Path, model: str) -> None:  # R-04
    manifest = loaded(tmp_path, team(f"strategy: relay-race, relay-race: {{legs: [], model: {model}}}")).manifest
    assert manifest.teams["t"].options == {"legs": [], "agent": "t-relay_race"}
    helper = manifest.agents["t-relay_race"]
    assert helper.model is not None
    assert set(helper.model_dump(exclude_unset=True)) == {"model"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("model: primry", "agent 't-relay_race': there is no model 'primry' (did you mean 'primary'?)"),
        ("model: 5", "team 't': 'model' expects text or a mapping, found the number 5"),
        ("model: primary, agent: c", "team 't': 'relay-race' has 'agent' and 'model' (keep one of them)"),
    ],
)
def test_mistakes_with_such_a_model_are_reported(tmp_path: Path, options: str, told: str) -> None:
    problem = only_problem(tmp_path, team(f"strategy: relay-race, relay-race: {{legs: [], {options}}}"))
    assert told in str(problem)
    assert problem.column > 70


def test_the_name_of_such_a_helper_may_be_taken(tmp_path: Path) -> None:
    text = team("strategy: relay-race, relay-race: {legs: [], model: primary}")
    problem = only_problem(tmp_path, text.replace("c: {", "t-relay_race: {"))
    assert problem.message == "There is already an agent 't-relay_race'"


def test_a_model_of_a_strategy_that_takes_anything_stays_as_it_is(tmp_path: Path) -> None:
    found = loaded(tmp_path, team("strategy: anything, anything: {model: primary}"))
    assert found.manifest.teams["t"].options == {"model": "primary"}


def test_a_model_may_select_in_place_of_an_agent(tmp_path: Path) -> None:  # R-04
    found = loaded(tmp_path, team("strategy: selector, max_turns: 3, selector: {model: primary, allow_repeat: true}"))
    assert found.manifest.teams["t"].options == {"allow_repeat": True, "agent": "t-selector"}
    assert found.manifest.agents["t-selector"].model_dump(exclude_unset=True) == {"model": "primary"}


def test_a_graph_may_branch_on_conditions(tmp_path: Path) -> None:  # R-06
    edges = "[{from: a, to: b, when: 'data.n > 1'}, {from: a, to: a}]"
    found = loaded(tmp_path, team(f"strategy: graph, max_turns: 3, graph: {{edges: {edges}}}"))
    assert len(found.manifest.teams["t"].options["edges"]) == 2  # pyright: ignore[reportArgumentType]
    text = team("strategy: graph, graph: {edges: [{from: a, to: b, when: 'data.n >'}]}")
    problem = only_problem(tmp_path, text)
    assert text.splitlines()[2][problem.column - 1 :].startswith("'data.n >'")
