"""The card of an agent: what it offers and where, cached by its clients, and signed where a key is set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from teamwright.server.a2a.agent import KEY
from tests.server.a2a.conftest import Agents

CARD = "/a2a/pair/.well-known/agent-card.json"


async def test_a_card_says_where_its_agent_is(agents: Agents) -> None:
    answer = await agents.caller("read").http.get(CARD)
    card: dict[str, Any] = answer.json()
    assert card["name"] == "pair"
    assert {one["protocolBinding"] for one in card["supportedInterfaces"]} == {"JSONRPC", "HTTP+JSON"}
    assert {one["url"] for one in card["supportedInterfaces"]} == {f"{agents.server.url}/a2a/pair"}
    assert card["capabilities"]["streaming"]
    again = await agents.caller("read").http.get(CARD, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


async def test_a_card_behind_tls_names_it(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_URL", agents.server.url.replace("http:", "https:"))
    card = (await agents.caller("read").http.get(CARD)).json()
    assert card["supportedInterfaces"][0]["url"].startswith("https://")


async def test_there_is_no_card_of_an_unknown_team(agents: Agents) -> None:
    assert (await agents.caller("read").http.get(CARD.replace("pair", "nobodys"))).status_code == 404


@pytest.mark.parametrize("kind", ["curve", "rsa"])
async def test_the_official_verifier_accepts_the_signature_and_no_changed_card(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from a2a.types import AgentCard
    from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
    from google.protobuf.json_format import ParseDict

    key = ec.generate_private_key(ec.SECP256R1()) if kind == "curve" else rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv(KEY, str(file))
    first, second = [(await agents.caller("read").http.get(CARD)).json() for _ in range(2)]
    assert first["signatures"] == second["signatures"]
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    verify = create_signature_verifier(lambda _kid, _jku: public, ["ES256", "RS256"])
    verify(ParseDict(first, AgentCard()))
    with pytest.raises(InvalidSignaturesError):
        verify(ParseDict({**first, "name": "other"}, AgentCard()))


@pytest.mark.parametrize("content", [None, b"no key", "of another kind"])
async def test_a_key_that_can_not_sign_is_said(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | str | None
) -> None:
    file = tmp_path / "key.pem"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        key = ed25519.Ed25519PrivateKey.generate()
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv(KEY, str(file))
    answer = await agents.caller("read").http.get(CARD)
    assert answer.status_code == 400
    assert KEY in answer.text
