from __future__ import annotations

import teamwright.experts as experts


def test_every_public_name_can_be_imported() -> None:
    for name in experts.__all__:
        assert getattr(experts, name).__name__ == name
