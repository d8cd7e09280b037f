"""The options of a reactive team, and their mistakes with positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import load_team
from teamwright.errors import ManifestError
from teamwright.strategies.reactive.options import ReactiveOptions, condition_flaws

MANIFEST = """\
agents:
  a: {function: "builtins:str"}
teams:
  t:
    strategy: reactive
    members: [a]
    reactive:
      goal: stat.done
      subscriptions:
        - {member: a, on: workflow.started, when: "dta.x"}
        - {member: b, on: found}
        - {member: a, on: found, emits: [{type: agent.error}]}
"""


def test_every_condition_that_cannot_be_read_is_reported_with_its_place() -> None:
    options = ReactiveOptions.model_validate(
        {
            "subscriptions": [
                {
                    "member": "a",
                    "on": "x",
                    "when": "data.n > 1 and by == 'b' and depth < 3 and type != 'y' and state.z",
                },
                {"member": "a", "on": "x", "when": "text == ''"},
                {"member": "a", "on": "x", "emits": [{"type": "y", "when": "text == '' or data.z or state.z"}]},
                {"member": "a", "on": "x", "emits": [{"type": "y"}, {"type": "y", "when": "depth > 1"}]},
            ],
            "goal": "state.done and 'x' in emitted and (",
        }
    )
    assert [flaw.at for flaw in condition_flaws(options)] == [
        ("subscriptions", 1, "when"),
        ("subscriptions", 3, "emits", 1, "when"),
        ("goal",),
    ]


@pytest.mark.parametrize(
    ("mended", "lines"),
    [
        ({}, [11, 12]),
        ({"agent.error": "mended"}, [8, 10, 11]),
        ({"agent.error": "mended", "member: b": "member: a"}, [8, 10]),
    ],
)
def test_a_manifest_shows_mistakes_with_their_lines(
    tmp_path: Path, mended: dict[str, str], lines: list[int]
) -> None:
    text = MANIFEST
    for wrong, right in mended.items():
        text = text.replace(wrong, right)
    file = tmp_path / "team.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_team(file)
    assert [problem.line for problem in caught.value.problems] == lines


def test_the_limits_have_defaults() -> None:  # P-07
    options = ReactiveOptions.model_validate({"subscriptions": [{"member": "a", "on": "workflow.started"}]})
    assert (options.max_events, options.max_depth, options.limit, options.on_failure) == (100, 20, 10, "fail")
