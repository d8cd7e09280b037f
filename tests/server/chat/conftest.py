from __future__ import annotations

from tests.server.a2a.conftest import agent_teams
from tests.server.chat.agui_door import door
from tests.server.chat.editors import editors
from tests.server.chat.responses_doors import doors, response_teams

__all__ = ["agent_teams", "door", "doors", "editors", "response_teams"]
