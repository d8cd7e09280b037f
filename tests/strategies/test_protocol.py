"""The settings of a team: options are parsed once, and never shared where a strategy could change them."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ConfigDict

from teamwright.strategies.protocol import Settings
from teamwright.values.value import Value


class Rounds(Value):
    rounds: int = 1


class ChangeableRounds(Value):
    model_config = ConfigDict(frozen=False)

    rounds: int = 1


def test_frozen_options_are_parsed_once() -> None:
    settings = Settings(options={"rounds": 3})
    assert settings.read(Rounds).rounds == 3
    assert settings.read(Rounds) is settings.read(Rounds)


def test_options_that_a_strategy_can_change_are_its_own() -> None:
    settings = Settings(options={"rounds": 3})
    settings.read(ChangeableRounds).rounds = 9
    assert settings.read(ChangeableRounds).rounds == 3


def test_other_options_are_parsed_again() -> None:
    settings = Settings(options={"rounds": 3})
    assert settings.read(Rounds).rounds == 3
    other = replace(settings, options={"rounds": 4})
    assert other.read(Rounds).rounds == 4
    assert settings == Settings(options={"rounds": 3})
