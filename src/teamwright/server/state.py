"""What the parts of a server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from teamwright.runtime.engine import Engine
from teamwright.server.catalogue import Catalogue
from teamwright.server.tokens import Sessions, Tokens


@dataclass(frozen=True, slots=True)
class ServerState:
    """One engine over one journal, the teams that it may run, and who may use it."""

    engine: Engine
    catalogue: Catalogue
    tokens: Tokens
    sessions: Sessions = field(default_factory=Sessions)
