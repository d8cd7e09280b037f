"""All fuzz targets."""

from __future__ import annotations

from tests.fuzz.targets.envelopes import Envelopes
from tests.fuzz.targets.expressions import Conditions, Templates
from tests.fuzz.targets.journals import Journals
from tests.fuzz.targets.manifests import Manifests
from tests.fuzz.targets.protocol import Target
from tests.fuzz.targets.replies import Replies, Sockets
from tests.fuzz.targets.scripts import Scripts

TARGETS: tuple[type[Target], ...] = (Manifests, Journals, Replies, Sockets, Envelopes, Scripts, Conditions, Templates)
