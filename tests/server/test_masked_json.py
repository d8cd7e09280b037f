"""What a person edits is shown masked; what comes back is saved with the secrets of the original."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.server.masked_json import contains_mask, unmasked
from teamwright.values.text.secrets import HIDDEN, mask_value

KEY, OTHER = "sk-abcdefghij0123456789", "sk-zyxwvutsrq9876543210"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIBVQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----"
PLAN: JsonValue = {
    "steps": [
        {"id": "a", "task": f"Use {KEY} here.\nThen stop."},
        {"id": "b", "task": f"Use {OTHER} there.", "password": "hunter2222"},
    ]
}


def test_what_is_sent_back_unchanged_is_the_original() -> None:
    assert contains_mask(mask_value(PLAN))
    assert unmasked(mask_value(PLAN), PLAN) == PLAN


def test_an_edit_beside_a_mask_keeps_the_secret() -> None:
    sent: JsonValue = {
        "steps": [
            {"id": "b", "task": f"Use {HIDDEN} there.", "password": HIDDEN},
            {"id": "a", "task": f"Look first.\nUse {HIDDEN} here.\nThen go on.", "needs": ["b"]},
        ]
    }
    restored = unmasked(sent, PLAN)
    assert restored == {
        "steps": [
            {"id": "b", "task": f"Use {OTHER} there.", "password": "hunter2222"},
            {"id": "a", "task": f"Look first.\nUse {KEY} here.\nThen go on.", "needs": ["b"]},
        ]
    }


def test_a_secret_of_several_lines_has_one_mask() -> None:
    text = f"before\nkey: {PEM} end\nafter"
    assert unmasked(f"before\nkey: {HIDDEN} end\nand after", text) == f"before\nkey: {PEM} end\nand after"


def test_a_mask_that_was_recorded_stays() -> None:
    assert unmasked(f"say {HIDDEN}\nmore", f"say {HIDDEN}") == f"say {HIDDEN}\nmore"


@pytest.mark.parametrize("sent", [HIDDEN, f"Use {HIDDEN} elsewhere.", [HIDDEN], {HIDDEN: 1}])
def test_a_mask_that_stands_for_no_secret_is_refused(sent: JsonValue) -> None:
    with pytest.raises(UsageError, match="the mask of a secret"):
        unmasked(sent, PLAN)


def test_equal_lines_with_different_secrets_are_not_guessed() -> None:
    with pytest.raises(UsageError):
        unmasked([f"Use {HIDDEN}", "more", "lines"], {"a": f"Use {KEY}", "b": f"Use {OTHER}"})
