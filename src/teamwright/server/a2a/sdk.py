"""The only place that imports `a2a-sdk`, from the extra `a2a`: signing cards, and the client for remote agents.

The server itself needs none of it. The types of the SDK are protobuf, its server parts keep tasks in memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from teamwright.errors import AgentError, MissingExtra, ServiceError
from teamwright.values.text.secrets import mask_text

Json = dict[str, Any]
EXTRA = "a2a"
BINDINGS = ("JSONRPC", "HTTP+JSON")
LARGEST_RESPONSE = 32 * 1024 * 1024
"""Bytes of one response of a remote agent."""
LIBRARIES = frozenset(("a2a", "google", "httpx", "jwt", "cryptography"))


@contextmanager
def needed(what: str) -> Generator[None]:
    """Import the SDK within the block; raises `MissingExtra` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        raise MissingExtra(EXTRA, what) from error


def sign_card(card: Json, key: bytes) -> list[Json]:
    """Return the signatures of a card by a private key in PEM; raises `ValueError` for what is no such key."""
    with needed("Signing the cards of agents"):
        from a2a.types import AgentCard
        from a2a.utils.signing import create_agent_card_signer
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            PublicFormat,
            load_pem_private_key,
        )
        from google.protobuf.json_format import MessageToDict, ParseDict

    try:
        private = load_pem_private_key(key, None)
    except TypeError as error:
        raise ValueError("it is encrypted") from error
    match private:
        case EllipticCurvePrivateKey(curve=SECP256R1()):
            algorithm = "ES256"
        case RSAPrivateKey():
            algorithm = "RS256"
        case _:
            raise ValueError("it is neither of the curve P-256 nor of RSA")
    public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    header: Any = {"kid": sha256(public).hexdigest()[:16], "alg": algorithm, "jku": None, "typ": "JOSE"}
    sign = create_agent_card_signer(key, header)
    signed = sign(ParseDict(card, AgentCard()))
    return [MessageToDict(one) for one in signed.signatures]


class RemoteClient:
    """Calls one remote agent with the official client; an error says what the agent or the network did.

    What it returns is plain JSON with the fields that a member needs: `task`, `state`, `text`, `data`, `asked`
    and `question`, which tells a question from one before.
    """

    def __init__(self, url: str, http: Any) -> None:
        self._url, self._http = url, http
        self._client: Any = None
        self.may_come_back = True

    async def send(self, message: Json) -> Json:
        """Send a message, and return its task, or the message that is the answer."""
        from a2a.types import SendMessageRequest
        from google.protobuf.json_format import ParseDict

        asked = ParseDict({"message": message, "configuration": {"returnImmediately": True}}, SendMessageRequest())
        found: Json = {}
        with self._errors():
            client = await self._connected()
            async for one in client.send_message(asked):
                found = _plain(one)
                break
        return _reply(found.get("message") or {}) if "task" not in found else _task(found["task"])

    async def task(self, id_: str) -> Json:
        """Return a task."""
        from a2a.types import GetTaskRequest

        with self._errors():
            client = await self._connected()
            return _task(_plain(await client.get_task(GetTaskRequest(id=id_, history_length=0))))

    async def cancel(self, id_: str) -> None:
        """End a task for good."""
        from a2a.types import CancelTaskRequest

        with self._errors():
            client = await self._connected()
            await client.cancel_task(CancelTaskRequest(id=id_))

    async def _connected(self) -> Any:
        if self._client is None:
            from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

            card = await A2ACardResolver(self._http, self._url).get_agent_card()
            _require_own(card, self._url)
            config = ClientConfig(httpx_client=self._http, streaming=False, supported_protocol_bindings=list(BINDINGS))
            self._client = ClientFactory(config).create(card)
        return self._client

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Say in our words what went wrong; only what may pass is worth another try."""
        import httpx
        from a2a.client.errors import A2AClientError
        from a2a.utils.errors import A2AError
        from google.protobuf.json_format import Error as NoSuchForm

        try:
            yield
        except AgentError:
            raise
        except (httpx.TransportError, A2AClientError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, httpx.HTTPStatusError) else None
            self.may_come_back = cause is None or cause.response.status_code >= 500
            raise ServiceError(f"The remote agent at {self._url!r} can't be reached: {str(error)[:500]}") from error
        except A2AError as error:
            raise AgentError(f"The remote agent at {self._url!r} refused: {str(error)[:500]}") from error
        except (NoSuchForm, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise AgentError(f"The agent at {self._url!r} does not speak A2A: {str(error)[:500]}") from error


@asynccontextmanager
async def remote_client(url: str, headers: Mapping[str, str]) -> AsyncGenerator[RemoteClient]:
    """Open a client of a remote agent; raises `MissingExtra` without the SDK."""
    with needed("A remote A2A agent"):
        import httpx
        from a2a.client import ClientFactory

        assert ClientFactory

    hooks = {"response": [_bound]}
    packed = {"accept-encoding": "identity"}
    async with httpx.AsyncClient(headers={**packed, **headers}, timeout=30, event_hooks=hooks) as http:
        yield RemoteClient(url.rstrip("/"), http)


async def _bound(response: Any) -> None:
    """Let a response fail once it is too large; nothing of it is unpacked, which could be larger than the bound."""
    import httpx

    class Bounded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            read = 0
            async for piece in whole:
                read += len(piece)
                if read > LARGEST_RESPONSE:
                    raise AgentError(f"The agent at {host!r} sent more than {LARGEST_RESPONSE} bytes at once.")
                yield piece

        async def aclose(self) -> None:
            await whole.aclose()

    whole, host = response.stream, response.request.url.host
    response.headers.pop("content-encoding", None)
    response.stream = Bounded()


def _origin(url: str) -> tuple[str, str, int | None]:
    """The server of an address; raises `ValueError` for what is not an address."""
    found = urlsplit(url)
    return (
        found.scheme.lower(),
        found.hostname or "",
        found.port or {"http": 80, "https": 443}.get(found.scheme.lower()),
    )


def _require_own(card: Any, url: str) -> None:
    """Keep the interfaces of a card at the server that the member names, since others must not get its headers."""
    own = [one for one in card.supported_interfaces if _origin(one.url) == _origin(url)]
    if not own and card.supported_interfaces:
        other = mask_text(str(card.supported_interfaces[0].url))[:200]
        raise AgentError(f"The card of the agent at {url!r} names another server, {other!r}: declare that address.")
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(own)


def _plain(message: Any) -> Json:
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(message)


def _task(found: Json) -> Json:
    """Return what a member needs of a task: the text and the data of its artifacts, or of what it says."""
    status = found.get("status", {})
    artifacts = [part for one in found.get("artifacts", []) for part in one.get("parts", [])]
    said = status.get("message", {}).get("parts", [])
    is_done = status.get("state") == "TASK_STATE_COMPLETED"
    reply = _reply({"parts": artifacts or said if is_done else said})
    asked = next((part["data"] for part in said if isinstance(part.get("data"), dict)), None)
    question = [status.get("message", {}).get("messageId", ""), status.get("timestamp", ""), reply["text"]]
    named = {"task": found.get("id", ""), "state": status.get("state", ""), "asked": asked}
    return {**reply, **named, "question": question}


def _reply(message: Json) -> Json:
    parts = message.get("parts", [])
    texts = [part["text"] for part in parts if "text" in part]
    data = next((part["data"] for part in parts if "data" in part), None)
    return {"text": "\n\n".join(texts), "data": data}
