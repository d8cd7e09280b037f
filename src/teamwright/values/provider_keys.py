"""The keys of model providers by the names of their variables, and the hosts that a manifest may send each of them to.

A host is listed only if the provider alone runs programs there. A variable that is not listed belongs to no
provider: a manifest may send it to any server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from teamwright.errors import UsageError

ALLOW_HOSTS: Final = "TEAMWRIGHT_ALLOW_HOSTS"
"""The variable that allows more hosts, as `NAME@HOST`, separated by commas or spaces."""
_TABLE: Final = """
alibaba | ALIBABA_API_KEY DASHSCOPE_API_KEY | dashscope.aliyuncs.com dashscope-intl.aliyuncs.com
anthropic | ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_API_KEY | api.anthropic.com
azure azure-responses | AZURE_OPENAI_API_KEY AZURE_API_KEY AZURE_OPENAI_AD_TOKEN AZURE_VOICELIVE_API_KEY \
    | openai.azure.com cognitiveservices.azure.com services.ai.azure.com
bedrock bedrock-mantle | AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK |
cerebras | CEREBRAS_API_KEY | api.cerebras.ai
cohere | CO_API_KEY COHERE_API_KEY | api.cohere.com api.cohere.ai
crusoe | CRUSOE_API_KEY | api.inference.crusoecloud.com
deepseek | DEEPSEEK_API_KEY | api.deepseek.com
fireworks | FIREWORKS_API_KEY | api.fireworks.ai
gateway | PYDANTIC_AI_GATEWAY_API_KEY PAIG_API_KEY | pydantic.dev pydantic.info
github github-copilot | GITHUB_API_KEY GITHUB_COPILOT_API_KEY GITHUB_COPILOT_API_TOKEN COPILOT_GITHUB_TOKEN \
    | models.github.ai githubcopilot.com
google google-cloud | GOOGLE_API_KEY GEMINI_API_KEY | generativelanguage.googleapis.com aiplatform.googleapis.com
groq | GROQ_API_KEY | api.groq.com
heroku | HEROKU_INFERENCE_KEY | inference.heroku.com
huggingface | HF_TOKEN HUGGINGFACE_TOKEN HUGGINGFACE_API_KEY HUGGING_FACE_HUB_TOKEN | huggingface.co
meta | META_API_KEY LLAMA_API_KEY | api.meta.ai api.llama.com
mistral | MISTRAL_API_KEY | api.mistral.ai
moonshotai | MOONSHOTAI_API_KEY MOONSHOT_API_KEY | api.moonshot.ai api.moonshot.cn
nebius | NEBIUS_API_KEY | api.studio.nebius.com api.studio.nebius.ai
openai openai-chat openai-chatgpt openai-codex openai-decisions openai-responses \
    | OPENAI_API_KEY OPENAI_ADMIN_KEY OPENAI_KEY | api.openai.com
openrouter | OPENROUTER_API_KEY | openrouter.ai
ovhcloud | OVHCLOUD_API_KEY | endpoints.kepler.ai.cloud.ovh.net
perplexity | PERPLEXITY_API_KEY PPLX_API_KEY | api.perplexity.ai
sambanova | SAMBANOVA_API_KEY | api.sambanova.ai
snowflake | SNOWFLAKE_TOKEN | snowflakecomputing.com
together | TOGETHER_API_KEY | api.together.xyz api.together.ai
typesafe | TYPESAFE_API_KEY | api.typesafe.ai
vercel | VERCEL_AI_GATEWAY_API_KEY VERCEL_OIDC_TOKEN | ai-gateway.vercel.sh
voyageai | VOYAGE_API_KEY | api.voyageai.com
xai | XAI_API_KEY GROK_API_KEY | api.x.ai
zai | ZAI_API_KEY | api.z.ai
"""
"""Providers, their variables, and hosts, of which every subdomain counts as well."""

HOST_NAME: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*")
"""Matches a name that every program looks up in the same way; the zone of an IPv6 address may look like a host."""


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """The provider of a key under each of its names, and its hosts."""

    providers: tuple[str, ...]
    hosts: tuple[str, ...]


def _read_table() -> dict[str, ProviderKey]:
    found: dict[str, ProviderKey] = {}
    for line in _TABLE.strip().splitlines():
        providers, variables, hosts = (tuple(part.split()) for part in line.split("|"))
        found |= dict.fromkeys(variables, ProviderKey(providers, hosts))
    return found


PROVIDER_KEYS: Final[Mapping[str, ProviderKey]] = _read_table()


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a value goes: to a `host`, to a `provider` of models, to a `program`, or to a `tool` of another kind.

    `secure` tells whether it is encrypted on its way.
    """

    kind: str
    name: str
    port: int | None = None
    secure: bool = True

    def __str__(self) -> str:
        return repr(self.name) if self.kind == "host" else f"the {self.kind} {self.name!r}"


def address_destination(url: str) -> Destination:
    """Return the host of an address. One that programs might read in different ways belongs to no provider."""
    try:
        address = urlsplit(url)
        host, port = (address.hostname or "").rstrip("."), address.port
    except ValueError:
        host, port, address = "", None, urlsplit("")
    if not host or "\\" in url or " " in url or not url.isprintable():
        return Destination("host", url, secure=False)
    return Destination("host", host, port, secure=address.scheme == "https")


def is_own_destination(variable: str, to: Destination) -> bool:
    """Whether a variable is the key of a provider, and the destination is that provider."""
    key = PROVIDER_KEYS.get(variable)
    if key is None:
        return False
    if to.kind == "provider":
        return to.name in key.providers
    is_name = to.kind == "host" and HOST_NAME.fullmatch(to.name) is not None
    hosts = key.hosts if is_name and to.secure else ()
    return any(to.name == host or to.name.endswith(f".{host}") for host in hosts)


@dataclass(frozen=True, slots=True)
class KeyGrants:
    """Which variables a manifest may send where, besides each provider's key to its provider."""

    granted: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Hosts or names of other destinations, by variable; none for any destination."""

    @classmethod
    def parse(cls, entries: Iterable[str], *, needs_host: str = "") -> Self:
        """Read `NAME@HOST`, or `NAME` for any host unless `needs_host` names the setting; raises `UsageError`."""
        found: dict[str, frozenset[str]] = {}
        for entry in entries:
            name, at, host = entry.partition("@")
            if not name.isidentifier() or not name.isascii() or bool(at) != bool(host) or (needs_host and not host):
                form = "NAME@HOST" if needs_host else "NAME or NAME@HOST"
                raise UsageError(f"{needs_host or 'A variable'} is given as {entry!r}; write  {form}")
            hosts = found.get(name)
            found[name] = frozenset() if not host or hosts == frozenset() else (hosts or frozenset()) | {host.lower()}
        return cls(found)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read what the user of this process allows."""
        return cls.parse(environment.get(ALLOW_HOSTS, "").replace(",", " ").split(), needs_host=ALLOW_HOSTS)

    def allows_anywhere(self, variable: str) -> bool:
        """Whether a variable may go wherever the manifest says."""
        return self.granted.get(variable) == frozenset()

    def names(self, variable: str, to: Destination) -> bool:
        """Whether a variable may go to this destination because both were named."""
        hosts = self.granted.get(variable, frozenset())
        return to.name.lower() in hosts or (to.port is not None and f"{to.name.lower()}:{to.port}" in hosts)
