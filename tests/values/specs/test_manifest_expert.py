from __future__ import annotations

import pytest

from teamwright.errors import InvalidValue
from teamwright.values.specs.manifest import AgentSpec, Formation, FormedRole, Source
from teamwright.values.specs.members import ExpertProfile


@pytest.mark.parametrize("name", ["a", "data-scientist_2", "_", "-", "x" * 64])
def test_letters_digits_underscores_and_dashes_name_an_expert(name: str) -> None:
    assert ExpertProfile(template=name).template == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "né", "a/b", "a\n"])
def test_any_other_name_is_refused_in_words(name: str) -> None:
    with pytest.raises(InvalidValue, match="is no name of an expert: use letters"):
        ExpertProfile(template=name)


@pytest.mark.parametrize("color", ["red", "#12345", "#1234567", "#12345g", ""])
def test_a_colour_is_six_hexadecimal_digits(color: str) -> None:
    with pytest.raises(InvalidValue, match="is no colour: write it as '#'"):
        ExpertProfile(color=color)


def test_agents_and_sources_without_experts_are_recorded_as_before() -> None:  # D-01
    assert "expert" not in AgentSpec(model="local").model_dump(exclude_unset=True)
    source = Source.model_validate({"manifest": {}, "team": "t"})
    assert "formation" not in source.to_json()


def test_a_formation_is_recorded_with_the_source_and_read_back() -> None:
    formation = Formation(how="named", roles=(FormedRole(name="rita", origin="template", template="reviewer"),))
    source = Source.model_validate({"manifest": {}, "team": "t", "formation": formation})
    assert Source.model_validate(source.to_json()).formation == formation
