"""Docstrings of tools: the description that a model sees, and the description of each parameter."""

from __future__ import annotations

import inspect

import pytest

from teamwright.agents.tools.signature import Docstring, parse_docstring

NAMES = ("city", "days", "options")


def parse(text: str) -> Docstring:
    return parse_docstring(inspect.cleandoc(text), NAMES)


GOOGLE = """Return the forecast.

    Longer text: with a colon.

    Args:
        city (str): The city, as on
            a map.
        days: How many
        **options: anything else

    Returns:
        One line a day.
    """
NUMPY = """Return the forecast.

    Longer text: with a colon.

    Parameters
    ----------
    city : str
        The city, as on
        a map.
    days : int, optional
        How many
    **options
        anything else

    Returns
    -------
    str
        One line a day.
    """
SPHINX = """Return the forecast.

    Longer text: with a colon.

    :param str city: The city, as on
        a map.
    :type city: str
    :param days: How many
    :param options: anything else
    :returns: One line a day.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_parameters_are_described_in_each_style_and_not_repeated(text: str) -> None:
    parsed = parse(text)
    assert parsed.parameters == {"city": "The city, as on a map.", "days": "How many", "options": "anything else"}
    assert parsed.description.startswith("Return the forecast.\n\nLonger text: with a colon.\n\n")
    assert parsed.description.endswith("One line a day.")
    assert not {"city", "days", "options", "map", "Args", "Parameters"} & set(parsed.description.split())


def test_numpy_names_that_share_a_description_each_get_it() -> None:
    parsed = parse("Add.\n\nParameters\n----------\ncity, days : int\n    A number.")
    assert parsed == Docstring("Add.", {"city": "A number.", "days": "A number."})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line.",
        "Sum up.\n\nArgs:\n    weight: of something else, which is no parameter",
        "Look it up.\n\n\nTwo blank lines stay.   \n",
        "Parameters\n----------",
        "Args:",
    ],
)
def test_a_docstring_without_descriptions_of_parameters_is_unchanged(text: str) -> None:
    assert parse_docstring(text, NAMES) == Docstring(text)


def test_a_parameter_without_a_text_is_described_as_nothing() -> None:
    assert parse("Go.\n\nArgs:\n    city:\n    days: two").parameters == {"city": "", "days": "two"}
