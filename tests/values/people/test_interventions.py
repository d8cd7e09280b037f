"""Questions to people, and their interventions."""

from __future__ import annotations

import pytest
from msgspec import ValidationError, convert, json

from teamwright.values.people.interventions import Answered, Cancel, Intervention, Pause
from teamwright.values.people.questions import Answer


@pytest.mark.parametrize(
    "sent", [Answered(key="t/q", answer=Answer(text="yes", data={"n": 1}, by="me")), Cancel(reason="late"), Pause()]
)
def test_an_intervention_is_identified_by_its_kind(sent: Intervention) -> None:
    assert json.decode(json.encode(sent), type=Intervention) == sent
    assert sent.to_json()["kind"] == sent.kind


def test_an_intervention_of_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        convert({"kind": "dance"}, Intervention)
