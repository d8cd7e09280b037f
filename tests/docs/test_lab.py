"""The page on the lab documents every option and field; the numbers on the page of its model are those of the code."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from teamwright.cli.main import commands
from teamwright.lab.topology_model import BUDGETS, DEGRADATIONS, PROTOCOLS, TOPOLOGIES, WORKLOADS
from teamwright.lab.topology_report import Choice, Rankings, Row, RowGates, Scored
from teamwright.lab.topology_sweep import COLUMNS
from tests.docs.pages import ROOT
from tools.advice_table import read_cells, table, with_table

PAGE = (ROOT / "docs" / "money-and-people" / "lab.md").read_text(encoding="utf-8")
MODEL = (ROOT / "docs" / "contributing" / "topology-model.md").read_text(encoding="utf-8")


def test_every_option_is_documented() -> None:
    group = getattr(commands(), "commands")["lab"]  # noqa: B009 - a group has them, a command does not
    options = {name for one in group.commands["evaluate"].params for name in one.opts if name != "--help"}
    known = {f"--{one}" for one in ("budget-level", "workload", "protocol", "degradation")}
    assert not [option for option in options - known if f"`{option}" not in PAGE]


def test_every_field_is_documented() -> None:
    fields = [name for kind in (Row, RowGates, Rankings, Choice, Scored) for name in kind.__struct_fields__]
    own = ["score", "recommended", *COLUMNS[:8]]
    assert not [field for field in (*fields, *own) if f"`{field}`" not in PAGE]


def numbers(name: str) -> list[float]:
    """Return the numbers in the last table row that begins with a name."""
    line = re.findall(rf"^\| `{name}` \|(.*)$", MODEL, flags=re.MULTILINE)[-1]
    return [float(one.replace("\u2212", "-")) for one in re.findall(r"(?<![\w.])[+\u2212]?\d+(?:\.\d+)?", line)]


@pytest.mark.parametrize("profiles", [BUDGETS, WORKLOADS, PROTOCOLS])
def test_the_numbers_are_those_of_the_model(profiles: Mapping[str, tuple[float, ...]]) -> None:
    for name, profile in profiles.items():
        assert numbers(name) == list(profile)


def test_the_numbers_of_topologies_and_degradation_are_those_of_the_model() -> None:
    for name, profile in TOPOLOGIES.items():
        assert numbers(name) == [profile.participants or 5, profile.execution, profile.pass_rate, profile.cache]
    for name in ("auto", "aggressive"):
        cutback = DEGRADATIONS[name]
        assert numbers(name) == [-cutback.participants, cutback.summary_scale, cutback.quality]


def test_the_table_of_advice_is_as_the_published_rows_give_it() -> None:
    assert with_table(MODEL, table(read_cells())) == MODEL, "compute it again with  make tables"
