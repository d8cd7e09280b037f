"""The work of conditions and templates: counted before it is done, bounded, and in proportion to what is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from teamwright.errors import ExpressionFailed
from teamwright.strategies.expression_parser import MOST_TEMPLATE
from teamwright.strategies.expressions import Condition, Template
from tests.growth import assert_linear, assert_linear_calls, count_calls

WORK = 200_000
"""A small limit for evaluations, so that calls can be counted. The bombs below ask for far more."""


def doubling(times: int, last: str) -> str:
    """Nested loops that double a list, with this expression in the innermost."""
    loops = "".join(f"{{% for a{n + 1} in [[a{n}, a{n}]] %}}" for n in range(times))
    return f"{loops}{{{{ {last.format(last=f'a{times}', before=f'a{times - 1}')} }}}}{'{% endfor %}' * times}"


def ones(count: int) -> JsonValue:
    made: list[JsonValue] = []
    made.extend(1 for _ in range(count))
    return made


def doubled(times: int) -> JsonValue:
    value: JsonValue = ["x"]
    for _ in range(times):
        value = [value, value]
    return value


BOMBS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "a doubled list as JSON": (doubling(40, "{last} | tojson"), {"a0": ["x"]}),
    "a doubled list printed": (doubling(40, "{last}"), {"a0": ["x"]}),
    "doubled lists compared": (doubling(40, "{last} == [{before}, {before}]"), {"a0": ["x"]}),
    "a doubled list looked for": (doubling(40, "{last} in [{last}]"), {"a0": ["x"]}),
    "a doubled list joined": (doubling(40, "{last} | join(',')"), {"a0": ["x"]}),
    "data that refers to itself": ("{{ a | tojson }}", {"a": doubled(60)}),
    "data compared with itself": ("{{ a == b }}", {"a": doubled(60), "b": doubled(60)}),
    "`in` over a long list, for each of it": (
        "{% for one in a %}{{ one in a }}{% endfor %}", {"a": list[JsonValue](range(100_000))},
    ),
    "texts looked for in a long list": (
        "{% for one in a %}{{ 'z' in a }}{% endfor %}", {"a": list[JsonValue](map(str, range(50_000)))},
    ),
    "sums of a long list": ("{% for one in a %}{{ a | sum }}{% endfor %}", {"a": ones(20_000)}),
    "loops within loops": ("{% for b in a %}{% for c in a %}{% for d in a %}{% endfor %}{% endfor %}{% endfor %}",
        {"a": ones(2_000)}),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_template_that_asks_for_too_much_work_is_stopped_before_it(  # S-01
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, names = BOMBS[name]
    monkeypatch.setattr("teamwright.strategies.expression_evaluator.MOST_WORK", WORK)

    def render(_: int) -> None:
        with pytest.raises(ExpressionFailed, match=r"too much work|more than 1000000 characters"):
            Template(template).render(names)

    assert count_calls(render, 0) < WORK


TEMPLATES: dict[str, Callable[[int], str]] = {
    "blanks": lambda size: " " * size,
    "blanks in braces": lambda size: "{{" + " " * size,
    "blanks behind a field": lambda size: "{{ .x" + " " * size,
    "brackets": lambda size: "{{" + " (" * (size // 2),
    "beginnings": lambda size: "{{- " * (size // 4),
    "tags": lambda size: "\n  {%" * (size // 5),
    "filters": lambda size: "{{ a" + " |" * (size // 2),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_reading_a_template_takes_linear_work(name: str) -> None:  # S-01
    def read(texts: list[str]) -> None:
        for text in texts:
            Template(text, {"History": "history"}).problem(["history"])

    def prepare(size: int) -> list[str]:
        return [TEMPLATES[name](size) + f"{{# {next(COUNTER)} #}}" for _ in range(60 if "blanks" in name else 3)]

    assert_linear(read, prepare=prepare, size=10_000)


COUNTER = iter(range(1_000_000))
"""Makes each template another one, since those that were read are kept."""


def test_a_template_that_is_too_long_is_refused_unread() -> None:  # S-01
    assert "at most" in str(Template("{{" * MOST_TEMPLATE).problem([]))


@pytest.mark.parametrize("condition", ["5 in x", "x == y", "(x | sum) > 3", "(x | join(',') | length) > 3"])
def test_a_condition_over_a_long_list_takes_linear_work(condition: str) -> None:  # S-01
    def holds(names: dict[str, JsonValue]) -> None:
        Condition(condition).holds(names)

    def prepare(size: int) -> dict[str, JsonValue]:
        return {"x": ones(size), "y": ones(size)}

    assert_linear_calls(holds, prepare=prepare, size=2_000)


@pytest.mark.parametrize("looks", ["length", "first", "last", "default(1)"])
def test_a_glance_at_a_long_list_costs_nothing_to_speak_of(looks: str) -> None:
    template = Template(f"{{% for one in few %}}{{{{ many | {looks} }}}}{{% endfor %}}")
    many = ones(30_000)
    if looks == "default(1)":
        template = Template("{% for one in few %}{{ many | default(1) | length }}{% endfor %}")
    template.render({"few": ones(1_000), "many": many})
