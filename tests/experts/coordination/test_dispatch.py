"""Dispatch: a pool of members works through steps; a failed step goes to another member, and is then skipped."""

from __future__ import annotations

from teamwright.experts.coordination.dispatch import Dispatch
from teamwright.strategies.protocol import Settings, Strategy
from teamwright.testing.strategy import StrategyConformance


class TestDispatch(StrategyConformance):
    """Three steps over three members, the last after the others."""

    settings = Settings(options={"steps": [{"id": "one"}, {"id": "two"}, {"id": "both", "needs": ["one", "two"]}]})

    def make(self) -> Strategy:
        return Dispatch()
