"""All fuzz targets."""

from __future__ import annotations

from tests.fuzz.targets.agents import Agents
from tests.fuzz.targets.doors import Mcp
from tests.fuzz.targets.envelopes import Envelopes
from tests.fuzz.targets.expressions import Conditions, Templates
from tests.fuzz.targets.front_ends import FrontEnds
from tests.fuzz.targets.journals import Journals
from tests.fuzz.targets.manifests import Manifests
from tests.fuzz.targets.protocol import Target
from tests.fuzz.targets.replies import Replies, Sockets
from tests.fuzz.targets.responses import Responses
from tests.fuzz.targets.scripts import Scripts

TARGETS: tuple[type[Target], ...] = (
    Manifests,
    Journals,
    Replies,
    Sockets,
    Envelopes,
    Scripts,
    Conditions,
    Templates,
    Mcp,
    Agents,
    FrontEnds,
    Responses,
)
