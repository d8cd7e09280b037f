"""What a run needs of the process that drives it, read from its record, and what of it this process lacks.

Checking imports strategies, as driving the run would; nothing of the run is driven.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from shutil import which

from teamwright.agents.evaluators.registry import evaluator_names
from teamwright.agents.functions.own_modules import is_importable, modules_of
from teamwright.agents.tools.registry import kind_names
from teamwright.cluster.submission.code_folder import CodeFolder
from teamwright.errors import TeamwrightError
from teamwright.strategies.registry import find_strategy
from teamwright.teams.manifests.code_references import Code, code_in
from teamwright.teams.manifests.secrets import variables_in
from teamwright.values.events.run import RunStarted
from teamwright.values.models import Value
from teamwright.values.specs.manifest import Manifest

VARIABLE = "${"
SHOWN_DIGEST = 12
"""So many digits of a digest tell folders with code apart."""


class Needs(Value):
    """What a process needs to drive a run."""

    strategies: dict[str, int] = {}
    """The versions of the strategies, by their names."""
    strategy_classes: tuple[str, ...] = ()
    """Import paths of strategies, which have names of their own."""
    tools: tuple[str, ...] = ()
    evaluators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Programs that check work, by their paths or by names that are looked up in PATH."""
    variables: tuple[str, ...] = ()
    code: str = ""


def needs_of(started: RunStarted, manifest: Manifest) -> Needs:
    """Return what a run with this start and this manifest needs."""
    code = code_in(manifest)
    paths = {one.code for one in code if one.kind in {"function", "strategy", "evaluator"} and ":" in one.code}
    return Needs(
        strategies=started.strategies,
        strategy_classes=tuple(sorted({one.code for one in code if one.kind == "strategy" and ":" in one.code})),
        tools=tuple(sorted({one.code for one in code if one.kind == "tool"})),
        evaluators=tuple(sorted({one.code for one in code if one.kind == "evaluator" and ":" not in one.code})),
        modules=tuple(sorted({path.partition(":")[0] for path in paths})),
        programs=tuple(sorted(set(programs_in(code)))),
        variables=tuple(sorted(variables_in(manifest))),
        code=started.code,
    )


def programs_in(code: Iterable[Code]) -> Iterator[str]:
    """Return the programs of commands that check work, unless the worker's environment decides what they are."""
    for one in code:
        if one.kind == "command" and VARIABLE not in (program := shlex.split(one.code)[0]):
            yield program


def missing_here(
    needs: Needs, code: CodeFolder | None, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return what this process lacks of a run's needs, in words that follow "waits for a worker with"."""
    if needs.code and (code is None or code.digest != needs.code):
        return (f"the code {needs.code[:SHOWN_DIGEST]}",)
    if needs.code and code is not None and not code.is_unchanged():
        return (f"the code {needs.code[:SHOWN_DIGEST]}, unchanged since the worker began",)
    with modules_of(code.folder if code is not None and needs.code else ""):
        return tuple(_missing(needs, os.environ if environment is None else environment))


def _missing(needs: Needs, environment: Mapping[str, str]) -> Iterator[str]:
    yield from (f"the environment variable {name!r}" for name in needs.variables if name not in environment)
    yield from (f"the kind of tool {name!r}" for name in needs.tools if name not in kind_names())
    yield from (f"the evaluator {name!r}" for name in needs.evaluators if name not in evaluator_names())
    yield from (f"the program {name!r}" for name in needs.programs if which(name) is None)
    absent = [name for name in needs.modules if not is_importable(name)]
    yield from (f"the Python module {name!r}" for name in absent)
    if not absent:
        yield from _missing_strategies(needs)


def _missing_strategies(needs: Needs) -> Iterator[str]:
    own: dict[str, int] = {}
    for path in needs.strategy_classes:
        found = _find_strategy(path)
        if found is None:
            yield f"the strategy {path!r}"
        else:
            own[found[0]] = found[1]
    for name, version in needs.strategies.items():
        found = (name, own[name]) if name in own else _find_strategy(name)
        if found is None and needs.strategy_classes and len(own) < len(needs.strategy_classes):
            continue  # the name of a class that is missing, reported by its path
        if found is None or found[1] != version:
            yield f"strategy {name!r} version {version}"


def _find_strategy(name: str) -> tuple[str, int] | None:
    """The name and version of a strategy; `None` if there is none, or if it can't be imported."""
    module, colon, _ = name.partition(":")
    if colon and not is_importable(module):
        return None
    try:
        found = find_strategy(name)
    except TeamwrightError:
        return None
    return found.name, found.version
