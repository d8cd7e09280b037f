"""Writes manifests for the tests and loads them."""

from pathlib import Path
from textwrap import dedent

import pytest

from teamwright.errors import ManifestError, Problem
from teamwright.teams.manifests.manifest_loader import Loaded, load


def loaded(folder: Path, text: str, *, name: str = "team.yaml", replaced: bool = False) -> Loaded:
    """Load one manifest that is good."""
    file = folder / name
    file.write_text(dedent(text), encoding="utf-8")
    return load([file], models_replaced=replaced)


def problems(folder: Path, text: str, *, name: str = "team.yaml") -> list[Problem]:
    """The problems of one invalid manifest."""
    with pytest.raises(ManifestError) as caught:
        loaded(folder, text, name=name)
    return list(caught.value.problems)


def only_problem(folder: Path, text: str) -> Problem:
    """The single mistake of a manifest."""
    (problem,) = problems(folder, text)
    return problem
