"""Writes the tables of the page on expert teams from the settings of plans: `python -m tools.plan_tables`.

One table has what each preset changes, the other the rungs of the ladder; settings are in the reference of
manifests. A test makes them again and compares.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from teamwright.strategies import PlanStrategy
from teamwright.strategies.plan.options import RUNGS, PlanOptions
from teamwright.strategies.registry import BUILT_IN_STRATEGIES, find_strategy, strategy_names
from teamwright.values.specs.evaluation import Evaluate

PAGE = Path(__file__).resolve().parent.parent / "docs" / "teams" / "expert-teams.md"


def presets() -> dict[str, type[PlanOptions]]:
    """The settings of all presets of plans by name, those of the core first; `plan` has the defaults themselves."""
    names = dict.fromkeys((*BUILT_IN_STRATEGIES, *strategy_names()))
    found = [
        one for one in map(find_strategy, names) if isinstance(one, PlanStrategy) and type(one) is not PlanStrategy
    ]
    return {one.name: one.options for one in found}


def _changes(options: type[PlanOptions]) -> dict[str, object]:
    """What a preset changes, by setting."""
    fields, usual = options.model_fields, PlanOptions.model_fields
    return {name: fields[name].default for name in usual if fields[name].default != usual[name].default}


def value_text(value: object) -> str:
    """A default, as a manifest would say it."""
    match value:
        case None | () | "":
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case tuple():
            return f"`[{', '.join(map(str, cast('tuple[object, ...]', value)))}]`"
        case Evaluate():
            return "not blank"
        case dict():
            return "none"
        case float():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"


def ladder_table() -> Iterator[str]:
    """A line for each rung of the failure ladder."""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in RUNGS.items())


def presets_table() -> Iterator[str]:
    """A column for each preset and a line for each setting that one of them changes."""
    columns = {name: _changes(options) for name, options in presets().items()}
    yield f"| | {' | '.join(f'`{name}`' for name in columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for setting in PlanOptions.model_fields:
        if any(setting in changes for changes in columns.values()):
            cells = [_changed(changes, setting) for changes in columns.values()]
            yield f"| `{setting}` | {' | '.join(cells)} |"


def _changed(changes: Mapping[str, object], setting: str) -> str:
    """What a preset sets, or nothing."""
    return "" if setting not in changes else "`null`" if changes[setting] is None else value_text(changes[setting])


def tables() -> dict[str, str]:
    """The tables by name."""
    made = {"presets": presets_table(), "ladder": ladder_table()}
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def with_tables(page: str, made: Mapping[str, str]) -> str:
    """The page with the tables in their places."""
    for name, table in made.items():
        begin, end = f"<!-- table of {name}: make tables writes it -->\n", f"<!-- end of {name} -->\n"
        before, found, rest = page.partition(begin)
        if not found or end not in rest:
            raise ValueError(f"there is no place for the table {name!r}; write  {begin.strip()}  {end.strip()}")
        page = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Write the tables."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")


if __name__ == "__main__":
    main()
