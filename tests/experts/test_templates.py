from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.documents.nodes import ProblemReport
from teamwright.errors import InvalidValue
from teamwright.experts import ExpertTemplate
from teamwright.experts.templates import read_template


def read(folder: Path, text: str, name: str = "critic.yaml") -> tuple[ExpertTemplate | None, list[str]]:
    (folder / name).write_text(text, encoding="utf-8")
    report = ProblemReport()
    made = read_template(folder / name, report)
    return made, [f"{one.line}: {one.message}" for one in report.problems]


def test_a_template_has_the_fields_of_an_agent_and_of_a_profile(tmp_path: Path) -> None:  # A-01 A-02
    made, found = read(
        tmp_path,
        "name: critic\npersona: Strict.\nsettings: {temperature: 0.2}\ntools: ['os:getcwd', files]\nskills: [s]\n",
    )
    assert found == []
    assert made is not None
    assert (made.profile.persona, made.agent.settings) == ("Strict.", {"temperature": 0.2})
    assert made.profile.skills == (str(tmp_path.resolve() / "s"),)
    assert made.to_json() == {
        "name": "critic",
        "built_in": False,
        "file": str(tmp_path / "critic.yaml"),
        "settings": {"temperature": 0.2},
        "tools": [{"function": "os:getcwd"}, "files"],
        "persona": "Strict.",
        "skills": list(made.profile.skills),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a]", "1: This is not a template: a template is a mapping with the fields of an expert"),
        ("name: other", "1: template 'critic' is called 'other'"),
        ("expert: reviewer", "1: template 'critic': 'expert' is not a field here"),
        ("persona: x\ncolor: red", "2: template 'critic': color: 'red' is no colour"),
        ("instructions: {function: 'a:b'}", "1: template 'critic': the instructions of a template are a text"),
        ("persona: a\n---\npersona: b", "0: A template is one document"),
        ("persona: 1", "1: template 'critic': 'persona' expects text, found the number 1"),
        ("", "0: The file is empty"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    made, (found,) = read(tmp_path, text)
    assert made is None
    assert found.startswith(problem)


def test_the_name_of_a_file_has_to_be_one_of_an_expert(tmp_path: Path) -> None:
    made, (found,) = read(tmp_path, "persona: x", "my critic.yaml")
    assert made is None
    assert "'my critic' is no name of an expert" in found


def test_python_refuses_what_a_file_refuses() -> None:
    with pytest.raises(InvalidValue, match="'my critic' is no name of an expert"):
        ExpertTemplate(name="my critic")
