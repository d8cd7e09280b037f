from pathlib import Path

import pytest

from teamwright.cluster.run_requirements import CodeFolder, Needs, missing_here, needs_of
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import Manifest

STRATEGY = """
from teamwright import Strategy

class Debate(Strategy):
    name = "debate"
    version = {version}

    async def run(self, task, members, ctx):
        raise NotImplementedError
"""


def started(code: str = "", **strategies: int) -> RunStarted:
    return RunStarted(team="team", task="", manifest="", seed=1, strategies=strategies, code=code)


def code_with(folder: Path, version: int) -> CodeFolder:
    folder.mkdir()
    (folder / "debates.py").write_text(STRATEGY.format(version=version))
    return CodeFolder(folder)


def test_the_needs_of_a_run_are_read_from_its_record() -> None:
    manifest = Manifest.model_validate(
        {
            "agents": {
                "one": {
                    "function": "own.tools:answer",
                    "evaluate": {
                        "evaluator": "house",
                        "criteria": [
                            {"id": "style", "command": ["ruff", "check"]},
                            {"id": "own", "command": ["${HOUSE_CHECK}"]},
                        ],
                    },
                },
                "two": {
                    "model": {"url": "${PLACE}/v1", "name": "x", "api_key": "${SOME_KEY}"},
                    "instructions": "$${NOT_READ}",
                    "tools": ["terminate", {"ledger": {}}, {"function": "shop:buy"}],
                },
            },
            "teams": {"team": {"members": ["one", "two"], "strategy": "debates:Debate"}},
        }
    )
    assert needs_of(started("c0de", debate=3), manifest) == Needs(
        strategies={"debate": 3},
        strategy_classes=("debates:Debate",),
        tools=("ledger",),
        evaluators=("house",),
        modules=("debates", "own.tools", "shop"),
        programs=("ruff",),
        variables=("HOUSE_CHECK", "PLACE", "SOME_KEY"),
        code="c0de",
    )


def test_a_process_lacks_nothing_of_a_plain_run() -> None:
    assert missing_here(Needs(strategies={"sequential": 1}, modules=("json",)), None) == ()


def test_another_version_of_a_strategy_is_missing_in_words() -> None:
    assert missing_here(Needs(strategies={"sequential": 77}), None) == ("strategy 'sequential' version 77",)
    assert missing_here(Needs(strategies={"unheard_of": 2}), None) == ("strategy 'unheard_of' version 2",)


def test_each_thing_that_is_missing_is_named() -> None:
    needs = Needs(
        tools=("ledger",),
        evaluators=("house",),
        modules=("no_such.tools",),
        programs=("/no/such/program", "sh", "no-such-program"),
        variables=("PLACE",),
    )
    assert missing_here(needs, None, {}) == (
        "the environment variable 'PLACE'",
        "the kind of tool 'ledger'",
        "the evaluator 'house'",
        "the program '/no/such/program'",
        "the program 'no-such-program'",
        "the Python module 'no_such.tools'",
    )
    assert missing_here(Needs(variables=("PLACE",)), None, {"PLACE": ""}) == ()


def test_code_is_found_in_its_folder_and_only_with_the_right_digest(tmp_path: Path) -> None:
    code = code_with(tmp_path / "new", 2)
    needs = Needs(
        strategies={"debate": 2}, strategy_classes=("debates:Debate",), modules=("debates",), code=code.digest
    )
    assert missing_here(needs, code) == ()
    assert missing_here(needs, None) == (f"the code {code.digest[:12]}",)
    assert missing_here(needs, code_with(tmp_path / "old", 1)) == (f"the code {code.digest[:12]}",)


def test_a_version_in_the_right_code_that_differs_is_missing(tmp_path: Path) -> None:
    code = code_with(tmp_path / "code", 1)
    needs = Needs(strategies={"debate": 2}, strategy_classes=("debates:Debate",), code=code.digest)
    assert missing_here(needs, code) == ("strategy 'debate' version 2",)


def test_code_that_was_changed_under_a_running_worker_is_not_used(tmp_path: Path) -> None:
    code = code_with(tmp_path / "code", 2)
    (tmp_path / "code" / "debates.py").write_text(STRATEGY.format(version=3))
    (missing,) = missing_here(Needs(code=code.digest), code)
    assert "unchanged since the worker began" in missing


def test_a_module_beside_the_code_of_another_run_is_not_found(tmp_path: Path) -> None:
    code = code_with(tmp_path / "code", 2)
    assert missing_here(Needs(modules=("debates",)), code) == ("the Python module 'debates'",)


@pytest.mark.parametrize("name", ["debates", "no.such.module", "json.nothing"])
def test_a_class_that_can_not_be_imported_is_reported_once(name: str) -> None:
    needs = Needs(strategies={"debate": 2}, strategy_classes=(f"{name}:Debate",))
    assert missing_here(needs, None) == (f"the strategy '{name}:Debate'",)
