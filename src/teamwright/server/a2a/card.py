"""The agent card of a team: what it is called, where it is reached and what it takes; signed where a key is set."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from teamwright.errors import UsageError
from teamwright.runtime.people.webhook import SERVER
from teamwright.server.a2a.wire import VERSION, Json
from teamwright.values.text.secret_patterns import mask_text

if TYPE_CHECKING:
    from teamwright.teams.team import Team

KEY = "TEAMWRIGHT_A2A_KEY"
"""The variable with the file of the private key that signs cards: PEM, of an elliptic curve P-256 or of RSA."""
INPUTS = (
    "text/plain", "text/markdown", "text/csv", "text/html", "application/json", "application/yaml", "application/xml",
    "application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp", "audio/mpeg", "audio/wav", "video/mp4",
)  # fmt: skip
"""The media types that a message may have; the models of a team decide which of them they can read."""
OUTPUTS = ("text/plain", "application/json")


def address_of(request: Request) -> str:
    """Return the address of this server for a client: the one that it called, or by TLS where the server is named so.

    Behind a proxy that ends TLS, the address that the environment names tells that clients use it.
    """
    host = request.headers.get("host", "")
    named = urlsplit(os.environ.get(SERVER, ""))
    scheme = named.scheme if named.netloc == host and named.scheme else request.url.scheme
    return f"{scheme}://{host}"


def agent_card(id_: str, team: Team, address: str) -> Json:
    """Return the card of a team, signed if `TEAMWRIGHT_A2A_KEY` names a key."""
    url = f"{address}/a2a/{quote(id_, safe='')}"
    description = mask_text(team.description) or f"The team {team.name}."
    interface: Json = {"url": url, "protocolVersion": VERSION}
    skill: Json = {
        "id": id_,
        "name": team.name,
        "description": description,
        "tags": [team.strategy.name],
    }
    card: Json = {
        "name": team.name,
        "description": description,
        "version": version("teamwright"),
        "supportedInterfaces": [{**interface, "protocolBinding": one} for one in ("JSONRPC", "HTTP+JSON")],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": list(INPUTS),
        "defaultOutputModes": list(OUTPUTS),
        "skills": [skill],
    }
    if file := os.environ.get(KEY):
        card["signatures"] = _signatures(json.dumps(card), file)
    return card


def _signatures(card: str, file: str) -> list[Json]:
    try:
        return _sign(card, Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"The key that {KEY} names can't sign cards: {error}") from error


@lru_cache(maxsize=256)
def _sign(card: str, key: bytes) -> list[Json]:
    """Sign a card once, so that clients that ask again find the same."""
    from teamwright.server.a2a.sdk import sign_card

    return sign_card(json.loads(card), key)
