"""What a model is offered, and in which modes it may give its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from teamwright.agents.model.request_template import (
    ANSWER_TOOL,
    AnswerSchema,
    OutputMode,
    RequestTemplate,
    answer_modes,
    make_request_template,
    output_mode_of,
)
from teamwright.agents.tools.protocol import ToolDefinition
from teamwright.values.specs.manifest import JsonSchema

NUMBER: JsonSchema = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "description": "N.",
}
NEEDED, WANTED = AnswerSchema("a", NUMBER), AnswerSchema("a", NUMBER, preferred=True)
ADD = ToolDefinition("add", "Add two numbers.", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("profile", "native", "modes"),
    [
        ({}, False, ("tool", "prompt")),
        ({}, True, ("native", "tool", "prompt")),
        ({"supports_json_schema_output": True}, False, ("tool", "native", "prompt")),
        ({"supports_tools": False}, False, ("prompt",)),
        ({"supports_tools": False}, True, ("native", "prompt")),
        (
            {"supports_json_schema_output": True, "default_structured_output_mode": "native"},
            False,
            ("native", "tool", "prompt"),
        ),
        ({"default_structured_output_mode": "prompted"}, False, ("prompt", "tool")),
    ],
)
def test_a_model_is_asked_in_the_mode_that_it_does_best_and_then_in_the_others(
    profile: ModelProfile, native: bool, modes: tuple[OutputMode, ...]
) -> None:
    assert answer_modes(TestModel(profile=profile), NEEDED, native=native) == modes


def test_without_a_schema_an_answer_is_text() -> None:
    assert answer_modes(TestModel(), None, native=True) == ("text",)


def test_data_that_is_only_preferred_is_no_reason_for_a_prompt_of_its_own() -> None:
    assert answer_modes(TestModel(profile={"supports_tools": False}), WANTED, native=False) == ("text",)


def test_each_mode_has_its_own_parameters_and_all_have_one_digest() -> None:
    offer = make_request_template("Be short.", [ADD], ModelSettings(), NEEDED, ("native", "tool", "prompt"))
    native, tool, prompt = map(offer.parameters, offer.modes)
    assert (native.output_mode, tool.output_mode, prompt.output_mode) == ("native", "tool", "text")
    assert [one.content.partition(":")[0] for one in prompt.instruction_parts or ()] == [
        "Be short.",
        "Answer with one JSON value that fits this JSON Schema, without other text and without a code fence",
    ]
    assert native.output_object is not None
    assert native.output_object.json_schema["properties"] == NUMBER["properties"]
    assert [one.name for one in tool.output_tools] == [ANSWER_TOOL]
    assert (native.allow_text_output, tool.allow_text_output) == (True, False)
    assert all([one.name for one in each.function_tools] == ["add"] for each in (native, tool, prompt))


def test_the_digest_has_everything_that_is_sent_but_the_cap() -> None:
    def digest(text: str = "Be short.", temperature: float = 0.0, cap: int = 1, answer: AnswerSchema = NEEDED) -> str:
        settings = ModelSettings(temperature=temperature, max_tokens=cap)
        return make_request_template(text, [ADD], settings, answer, ("tool",)).digest

    other = AnswerSchema("a", {**NUMBER, "required": []})
    assert len({digest(), digest("Be long."), digest(temperature=1.0), digest(answer=other)}) == 4
    assert digest() == digest(cap=2)


def test_the_last_offer_is_used_again_only_if_the_same_would_be_made() -> None:
    def make(
        tool: ToolDefinition = ADD, seed: int = 1, last: RequestTemplate | None = None, text: str = "Be short."
    ) -> RequestTemplate:
        return make_request_template(text, [tool], ModelSettings(seed=seed), None, ("text",), last=last)

    last = make()
    assert make(last=last) is last
    others = (make(replace(ADD), last=last), make(seed=True, last=last), make(text="Be long.", last=last))
    assert all(one is not last for one in others)
    assert len({one.digest for one in (last, *others)}) == 3, "only the copy of the tool is equal"


@pytest.mark.parametrize(
    ("record", "mode"),
    [({}, "native"), ({"output_mode": "tool"}, "tool"), ({"output_mode": "text"}, "native"), (1, "native")],
)
def test_the_record_says_in_which_mode_a_response_answers(record: object, mode: str) -> None:
    assert output_mode_of(record, ("native", "tool")) == mode  # pyright: ignore[reportArgumentType]
