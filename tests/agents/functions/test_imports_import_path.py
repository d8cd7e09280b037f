"""Functions are found again by their import paths, and only those that are the same everywhere have one."""

from __future__ import annotations

from functools import partial

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.imports import UnloadedFunction, import_path, load_function
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import UsageError
from tests.agents.sample_functions import shout


class Shop:
    def sell(self, turn: object = None) -> str:
        return "sold"

    @staticmethod
    def close() -> None: ...


def test_a_function_has_an_import_path_only_if_that_leads_to_it() -> None:
    def closure() -> None: ...

    assert import_path(shout) == "tests.agents.sample_functions:shout"
    assert import_path(Shop) == f"{__name__}:Shop"
    assert import_path(Shop.close) == f"{__name__}:Shop.close"
    assert import_path(UnloadedFunction("desk:answer")) == "desk:answer"
    for function in (closure, lambda: None, partial(shout), Shop().sell):
        assert import_path(function) is None


def test_a_method_of_an_object_is_in_no_declaration() -> None:
    shop = Shop()
    assert FunctionAgent("a", shop.sell).spec.function is None
    agent = ModelAgent("a", model="openai:m", instructions=shop.sell, check={"input": lambda text, ctx: None})
    assert agent.spec.model is None


def test_a_path_leads_to_its_function() -> None:
    assert load_function("tests.agents.sample_functions:shout", "the tool") is shout


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("json.dumps", "write it as module:function"),
        ("no_such_module:f", "can't be imported"),
        ("json:dump_s", "did you mean 'dumps'"),
        ("json:JSONDecodeError.args", "is not a function"),
        ("json:__loader__.get_data", "'__loader__' is a name of Python's own"),
    ],
)
def test_a_wrong_import_path_is_reported_clearly(path: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_function(path, "the tool")


def test_what_has_a_name_is_set_off_from_the_path() -> None:
    with pytest.raises(UsageError, match=r"^The module of the agent 'ada', 'nowhere:f', can't be imported"):
        load_function("nowhere:f", "the agent 'ada'")
    with pytest.raises(UsageError, match=r"^'nowhere' is no path of the agent 'ada'; write"):
        load_function("nowhere", "the agent 'ada'")


def test_a_path_does_not_lead_through_another_module() -> None:
    with pytest.raises(UsageError, match=r"'os' in 'shutil:os\.system' is a module; write  os:…"):
        load_function("shutil:os.system", "the tool")
