"""Templates: texts with values in them, in Jinja's form and in ARK's."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expressions import Template

FIELDS = {"Participants": "participants", "Roles": "roles", "History": "history"}
NAMES: dict[str, JsonValue] = {
    "participants": "ann, ben",
    "roles": "ann: writes, ben",
    "history": "# ann:\n{{ 7 * 7 }} {% raw %}",
    "data": {"points": [{"title": "one", "ok": True}, {"title": "two", "ok": False}], "none": None, "n": 1.5},
    "big": list[JsonValue](["x" * 1000] * 1000),
}


@pytest.mark.parametrize(
    ("text", "comes_to"),
    [
        ("no values { } at all", "no values { } at all"),
        ("{{ participants }}!", "ann, ben!"),
        ("{{.Participants}} / {{ .Roles }}", "ann, ben / ann: writes, ben"),
        ("a {{- .Participants -}} b", "aann, benb"),
        ("{{.Participants}}{{ participants }}", "ann, benann, ben"),
        ("{{ data.n }} {{ data.points[0].ok }} {{ data.points[0] }}", '1.5 true {"title":"one","ok":true}'),
        ("{{ data.points | join(', ', 'title') }}", "one, two"),
        ("{{ data.none | default('-') }}{{ data.x | default('-') }}", "--"),
        ("{{ data.points[0].title | upper | truncate(2) }}", "O…"),
        ("{% for p in data.points %}\n{{ loop.index }}. {{ p.title }}\n{% endfor %}", "1. one\n2. two\n"),
        ("{% for p in data.points if p.ok %}{{ p.title }}{% else %}none{% endfor %}", "one"),
        ("{% for p in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for key in data %}{{ key }} {% endfor %}", "points none n "),
        ("{% if data.n > 2 %}a{% elif data.n > 1 %}b{% else %}c{% endif %}", "b"),
        ("{# nobody sees this #}x\n", "x"),
    ],
)
def test_values_are_put_in(text: str, comes_to: str) -> None:
    template = Template(text, FIELDS)
    assert template.problem(NAMES) is None
    assert template.render(NAMES) == comes_to


def test_what_is_put_in_is_never_read_as_a_template() -> None:
    assert Template("{{ history }}").render(NAMES) == "# ann:\n{{ 7 * 7 }} {% raw %}"
    assert Template("{{.History}}", FIELDS).render({"history": "{{.Participants}}"}) == "{{.Participants}}"


@pytest.mark.parametrize(
    "action",
    [
        "{{.Members}}",
        "{{ . }}",
        "{{ range .Participants }}x{{ end }}",
        "{{ if .Roles }}x{{ end }}",
        "{{ with .Roles }}x{{ end }}",
        "{{ .History | len }}",
        "{{ len .History }}",
        '{{ printf "%s" .Roles }}',
        "{{ $x := .Roles }}",
        "{{/* a comment */}}",
        '{{ template "x" . }}',
        "{{- .Team.Name -}}",
        "{{ end }}",
    ],
)
def test_any_other_action_of_go_is_refused_with_what_is_allowed(action: str) -> None:
    problem = Template(f"Choose from {{{{.Participants}}}}. {action}", FIELDS).problem(NAMES)
    assert problem is not None
    assert "is Go syntax" in problem
    assert "only {{.Participants}}, {{.Roles}}, {{.History}} are accepted" in problem
    assert action.partition("}}")[0] in problem


def test_where_no_field_has_another_name_go_is_not_read_at_all() -> None:
    assert "is Go syntax; a template is written in Jinja" in (Template("{{.History}}").problem(["history"]) or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ nobody }}", "'nobody' is not known here"),
        ("{{ p.title }}{% for p in data.points %}{% endfor %}", "'p' is not known here"),
        ("{{ loop.index }}", "'loop' is not known here"),
        ("{{ participants", "can't be parsed"),
        ("{% for p in data.points %}", "can't be parsed"),
        ("{% set x = 1 %}", "only {% if %} and {% for %}"),
        ("{% macro m() %}{% endmacro %}", "only {% if %} and {% for %}"),
        ("{% include 'x' %}", "only {% if %} and {% for %}"),
        ("{% import 'x' as x %}", "only {% if %} and {% for %}"),
        ("{% extends 'x' %}", "only {% if %} and {% for %}"),
        ("{% block b %}{% endblock %}", "only {% if %} and {% for %}"),
        ("{% filter upper %}x{% endfilter %}", "only {% if %} and {% for %}"),
        ("{% with x = 1 %}{% endwith %}", "only {% if %} and {% for %}"),
        ("{% for a, b in data.points %}{% endfor %}", "{% for item in list %}"),
        ("{% for p in data.points recursive %}{% endfor %}", "{% for item in list %}"),
        ("{{ participants.upper() }}", "calls are not supported"),
        ("{{ participants.__class__ }}", "begins with '_'"),
        ("x" * 50_001, "at most 50000"),
        ("{% if true %}" * 70 + "{% endif %}" * 70, "nested too deeply"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(text: str, words: str) -> None:
    problem = Template(text).problem(NAMES)
    assert problem is not None
    assert words in problem
    with pytest.raises(ExpressionFailed):
        Template(text).render(NAMES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ data.x }}", "data.x is missing"),
        ("{{ data.none }}", "data.none: null can't be printed"),
        ("{% if data.n %}x{% endif %}", "neither true nor false"),
        ("{% for x in participants %}x{% endfor %}", "a loop needs a list"),
        ("{{ data.points | join(', ', 'name') }}", "has no field 'name'"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_says_why(text: str, words: str) -> None:
    assert Template(text).problem(NAMES) is None
    with pytest.raises(ExpressionFailed, match=r"^the template can't be rendered: ") as raised:
        Template(text).render(NAMES)
    assert words in str(raised.value)


LOOPS = "{% for a in big %}{% for b in big %}{% for c in big %}"
ENDS = "{% endfor %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    "text",
    [
        LOOPS + ENDS,
        LOOPS + "{{ a }}" + ENDS,
        LOOPS + "{% if a == b and false %}{% endif %}" + ENDS,
        "{% for a in big %}{% for b in big if a | lower == 'y' %}{% endfor %}{% endfor %}",
        "{{ big | join(big | join) }}",
        "{{ big | tojson }}" * 3,
    ],
)
def test_nothing_takes_long_or_grows_large(text: str) -> None:
    with pytest.raises(ExpressionFailed, match=r"too much work|more than 1000000 characters|can't be joined"):
        Template(text).render(NAMES)


def test_it_says_what_it_takes() -> None:
    assert Template("{{.History}} {{ task }}", FIELDS).uses == {"history", "task"}
    assert Template("{% for p in data %}{{ p }}{{ loop.index }}{{ text }}{% endfor %}").uses == {"data", "text"}
    assert Template("{{ broken").uses == set()


@given(st.text(alphabet="{}%-# .|aHistory'\n", max_size=40))
def test_any_text_at_all_is_a_template_or_a_mistake(text: str) -> None:
    template = Template(text, FIELDS)
    problem = template.problem(NAMES)
    try:
        template.render(NAMES)
    except ExpressionFailed:
        return
    assert problem is None
