"""The command line: prints events and results. It reads and drives runs and never records anything itself."""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.cli.team_picture import draw_team

__all__ = ["draw_team"]

__getattr__, __dir__ = lazy_names(__name__, {"teamwright.cli.team_picture": "draw_team"})
