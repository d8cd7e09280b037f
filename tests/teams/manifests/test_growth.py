"""Loading a manifest takes time in proportion to its size, whatever its content and however wrong it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.teams.builder import Builder
from teamwright.teams.manifests.manifest_loader import load
from tests.growth import assert_linear_calls, assert_linear_count
from tests.teams.manifests.manifests import loaded as load_text, only_problem, problems


def agents(count: int) -> str:
    return "agents:\n" + "".join(f"  a{n}: {{model: local}}\n" for n in range(count))


def names(count: int, letter: str = "a") -> str:
    return ", ".join(f"{letter}{n}" for n in range(count))


def team(count: int, options: str, letter: str = "a", declared: int | None = None) -> str:
    return (
        agents(count if declared is None else declared)
        + f"teams: {{t: {{members: [{names(count, letter)}], {options}}}}}\n"
    )


def edges(count: int, letter: str = "a") -> str:
    return ", ".join(f"{{from: {letter}{n}, to: {letter}{n + 1}}}" for n in range(count - 1))


def steps(count: int) -> str:
    return ", ".join(
        ["{id: a0}", *(f"{{id: a{n}, needs: [a{n - 1}], when: 'data.a{n - 1}.x > 1'}}" for n in range(1, count))]
    )


def ark(kind: str, name: str, spec: str, namespace: str = "n") -> str:
    head = "---\napiVersion: ark.mckinsey.com/v1alpha1\n"
    return f"{head}kind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n"


def ark_graph(count: int) -> str:
    members = ", ".join(f"{{name: a{n}, type: agent}}" for n in range(count))
    spec = f"{{strategy: graph, maxTurns: 3, members: [{members}], graph: {{edges: [{edges(count)}]}}}}"
    return "".join(ark("Agent", f"a{n}", "{prompt: x}") for n in range(count)) + ark("Team", "t", spec)


MANIFESTS: dict[str, Callable[[int], str]] = {
    "agents": agents,
    "members": lambda n: team(n, "strategy: sequential"),
    "members that nobody has": lambda n: team(n, "strategy: sequential", "zz", n),
    "teams": lambda n: agents(2) + "teams:\n" + "".join(f"  t{i}: {{members: [a0, a1]}}\n" for i in range(n)),
    "edges": lambda n: team(n, f"strategy: graph, graph: {{edges: [{edges(n)}]}}"),
    "edges between nobody": lambda n: team(n, f"strategy: graph, graph: {{edges: [{edges(n, 'b')}]}}"),
    "steps": lambda n: team(n, f"strategy: dag, dag: {{steps: [{steps(n)}]}}"),
    "steps of nobody": lambda n: team(n, f"strategy: dag, dag: {{steps: [{steps(n).replace('id: a', 'id: b')}]}}"),
    "fallbacks": lambda n: "agents:\n" + "".join(f"  a{i}: {{model: local, fallback: a{i + 1}}}\n" for i in range(n)),
    "unknown fields": lambda n: f"agents: {{a: {{model: local, {', '.join(f'f{i}: 1' for i in range(n))}}}}}\n",
    "unknown tools": lambda n: (
        "tools:\n"
        + "".join(f"  t{i}: m:f\n" for i in range(n))
        + f"agents: {{a: {{model: local, tools: [{names(n, 'u')}]}}}}\n"
    ),
    "long names": lambda n: "agents:\n" + "".join(f"  {'a' * 300}{i}: {{model: local}}\n" for i in range(n)),
    "one name again and again": lambda n: "---\nagents: {a: {model: local}}\n" * n,
    "ARK graph": ark_graph,
    "ARK namespaces": lambda n: "".join(ark("Agent", "a", "{prompt: x}", f"n{i}") for i in range(n)),
    "other software": lambda n: "---\napiVersion: v1\nkind: ConfigMap\ndata: {a: 1, a: 2}\n" * n + "---\n" + agents(1),
}


def long(count: int) -> str:
    return "k" * (10 * count)


MISTAKES: dict[str, Callable[[int], str]] = {
    "secrets under a long key": lambda n: (
        f"agents: {{a: {{model: local, output_schema: {{properties: {{? {long(n)} : {{description: '"
        + "".join(f"${{K{i}_KEY}}" for i in range(n))
        + "'}}}}}\n"
    ),
    "needs of a step with a long id": lambda n: team(
        1, f"strategy: dag, dag: {{steps: [{{id: {long(n)}, agent: a0, needs: [{names(n, 'z')}]}}]}}"
    ),
    "questions of a step with a long id": lambda n: team(
        1,
        f"strategy: dag, dag: {{steps: [{{id: {long(n)}, agent: a0, task: '"
        + "".join(f"{{{{ outputs.z{i} }}}}" for i in range(n))
        + "'}]}",
    ),
    "a graph that begins with a long name": lambda n: team(
        n, "strategy: graph, graph: {edges: [{from: a0, to: a1}]}"
    ).replace("members: [", f"members: [{long(n)}, "),
    "members of a long team": lambda n: agents(1) + f"teams: {{? {long(n)} : {{members: [{names(n, 'z')}]}}}}\n",
    "teams that lead back": lambda n: "teams:\n" + "".join(f"  t{i}: {{members: [t{i + 1}, t0]}}\n" for i in range(n)),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_report_grows_linearly_with_the_manifest(tmp_path: Path, kind: str) -> None:  # S-01
    def characters(size: int) -> int:
        found = problems(tmp_path, MISTAKES[kind](size))
        assert len(found) > 50
        return sum(len(problem.message) + len(problem.suggestion) for problem in found)

    assert_linear_count(characters, size=100)


@pytest.mark.parametrize("kind", MANIFESTS)
def test_loading_grows_with_the_manifest(tmp_path: Path, kind: str) -> None:  # S-01
    file = tmp_path / "team.yaml"

    def work(text: str) -> None:
        file.write_text(text)
        try:
            loaded = load([file])
            builder = Builder(loaded.manifest, loaded.base)
            for name in (*loaded.manifest.agents, *loaded.manifest.teams):
                builder.team(name)
        except UsageError:
            pass

    assert_linear_calls(work, prepare=MANIFESTS[kind], size=150)


def owning_teams(count: int, key: str, *, steps: int = 100) -> str:
    """Concurrent dags, each with this many steps that own a key each."""
    text = agents(1) + f"teams:\n  root: {{strategy: dag, members: [{names(count, 't')}], dag: {{steps: ["
    text += ", ".join(f"{{id: t{n}}}" for n in range(count)) + "]}}\n"
    for number in range(count):
        owned = (f"{{id: s{n}, agent: a0, owns: ['{key.format(f'{number}x{n}')}']}}" for n in range(steps))
        text += f"  t{number}: {{strategy: dag, members: [a0], dag: {{steps: [{', '.join(owned)}]}}}}\n"
    return text


def test_wildcards_of_all_teams_together_are_bounded(tmp_path: Path) -> None:  # S-01
    assert len(load_text(tmp_path, owning_teams(4, "*{}/**")).manifest.teams) == 5
    problem = only_problem(tmp_path, owning_teams(8, "*{}/**"))
    assert problem.message.startswith(
        "the steps of all teams together own 800 keys with wildcards so early that 319600 pairs would have to be"
    )
    assert (problem.line, "write the folder before the wildcard" in problem.message) == (5, True)
    assert_linear_calls(lambda text: problems(tmp_path, text), prepare=lambda n: owning_teams(n, "*{}/**"), size=20)


def test_a_team_that_owns_too_many_wildcards_is_reported_once(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, owning_teams(1, "*{}/**", steps=500))
    assert problem.message.startswith("team 't0': the steps own 500 keys with wildcards")


def test_wildcards_behind_folders_of_their_own_load_in_any_number_of_teams(tmp_path: Path) -> None:  # S-01
    assert len(load_text(tmp_path, owning_teams(30, "src/{}/**")).manifest.teams) == 31
    assert len(load_text(tmp_path, owning_teams(30, "tests/test_{}_*.py")).manifest.teams) == 31
    assert len(load_text(tmp_path, owning_teams(30, "**/*.py")).manifest.teams) == 31
