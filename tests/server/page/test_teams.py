"""The steps of a plan as a page shows them."""

from __future__ import annotations

from pydantic import JsonValue

from teamwright.server.page.teams import plan_steps

SECRET = "sk-" + "a1b2c3d4" * 4


def test_no_text_of_a_step_shows_a_secret() -> None:
    step: dict[str, JsonValue] = {
        "id": "one",
        "name": f"Use {SECRET}",
        "task": SECRET,
        "when": f"task == '{SECRET}'",
        "owns": [SECRET],
        "parts": [{"id": "part", "agent": "a", "task": SECRET}],
    }
    (shown,) = plan_steps({"steps": [step]}, {}, str)
    assert shown.name.startswith("Use ")
    assert SECRET not in str(shown)
