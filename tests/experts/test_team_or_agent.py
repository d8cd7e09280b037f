from __future__ import annotations

import pytest

from teamwright.errors import UsageError
from teamwright.experts.team_or_agent import AskRequest, parse_request


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("Do it.", AskRequest("Do it.")),
        ("  @team   Do\nit. ", AskRequest("Do\nit.", wants_team=True)),
        ("@team:analyst,strategist Do it.", AskRequest("Do it.", wants_team=True, names=("analyst", "strategist"))),
        ("@team:analyst, strategist Do it.", AskRequest("Do it.", wants_team=True, names=("analyst", "strategist"))),
        ("@team:a,a,b_2 Do it.", AskRequest("Do it.", wants_team=True, names=("a", "b_2"))),
        ("@Team: Do it.", AskRequest("Do it.", wants_team=True)),
        ("@TEAM:analyst Do it.", AskRequest("Do it.", wants_team=True, names=("analyst",))),
        ("@team\uff1aanalyst\uff0cwriter 写诗", AskRequest("写诗", wants_team=True, names=("analyst", "writer"))),
        ("@teamwork is hard", AskRequest("@teamwork is hard")),
        ("Ask the @team to do it", AskRequest("Ask the @team to do it")),
    ],
)
def test_a_prefix_asks_for_a_team_and_may_name_it(text: str, request_: AskRequest) -> None:
    assert parse_request(text) == request_


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@team", "There is no task"),
        ("@team:analyst  ", "There is no task"),
        ("", "There is no task"),
        ("@team:,a Do it.", "'' is no name of an expert"),
        ("@team:a,,b Do it.", "'' is no name of an expert"),
        ("@team:a.b Do it.", "'a.b' is no name of an expert"),
        ("@team:a,b,c,d,e,f,g,h,i Do it.", "at most 8 experts, and 9 are named"),
    ],
)
def test_what_can_t_be_meant_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_request(text)
    assert said in str(caught.value)
