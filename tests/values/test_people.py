"""What people are asked and what they send."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from teamwright.values.people import Answer, Answered, Cancel, Intervention, Pause

ADAPTER: TypeAdapter[Intervention] = TypeAdapter(Intervention)


@pytest.mark.parametrize(
    "sent", [Answered(key="t/q", answer=Answer(text="yes", data={"n": 1}, by="me")), Cancel(reason="late"), Pause()]
)
def test_an_intervention_is_told_by_its_kind(sent: Intervention) -> None:
    assert ADAPTER.validate_json(sent.model_dump_json()) == sent


def test_an_intervention_of_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python({"kind": "dance"})
