from __future__ import annotations

from teamwright import experts


def test_every_public_name_can_be_imported() -> None:
    for name in experts.__all__:
        assert getattr(experts, name).__name__ == name
