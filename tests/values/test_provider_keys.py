"""A provider's key goes to its provider, or where a user allowed it by name."""

import pytest

from teamwright.agents.clients.providers import PROVIDERS
from teamwright.errors import UsageError
from teamwright.values.provider_keys import (
    PROVIDER_KEYS,
    Destination,
    KeyGrants,
    address_destination,
    is_own_destination,
)
from teamwright.values.text.secrets import is_secret_name


@pytest.mark.parametrize(
    "url",
    ["https://api.openai.com/v1", "https://eu.api.openai.com:443", "https://API.OpenAI.com./v1"],
)
def test_the_hosts_of_a_provider_and_their_subdomains_are_its_own(url: str) -> None:
    assert is_own_destination("OPENAI_API_KEY", address_destination(url))


@pytest.mark.parametrize(
    "url",
    [
        "http://api.openai.com/v1",  # not encrypted on its way
        "https://api.openai.com@evil.example/v1",
        "https://evil.example/api.openai.com",
        "https://evil.example#@api.openai.com",
        "https://evil.example?@api.openai.com",
        "https://evil.example\\@api.openai.com/v1",
        "https://evil.example\t@api.openai.com/v1",
        "https://notapi.openai.com.evil.example",
        "https://evilapi.openai.com.",
        "https://api.anthropic.com/v1",
        "https://[api.openai.com",
        "https://[2001:db8::1%x.api.openai.com]/v1",
        "https://evil.example%2f.api.openai.com/v1",
        "https://evil.example|.api.openai.com/v1",
        "https://api..openai.com/v1",
        "https://",
        "",
    ],
)
def test_no_way_to_write_another_host_makes_it_the_providers(url: str) -> None:
    assert not is_own_destination("OPENAI_API_KEY", address_destination(url))


def test_the_table_names_secrets_and_known_providers() -> None:
    assert all(map(is_secret_name, PROVIDER_KEYS))
    named = {name for key in PROVIDER_KEYS.values() for name in key.providers}
    assert named - PROVIDERS == {"gateway", "perplexity", "voyageai"}


def test_a_host_is_allowed_by_name_with_or_without_its_port() -> None:
    grants = KeyGrants.from_environment({"TEAMWRIGHT_ALLOW_HOSTS": "OPENAI_API_KEY@proxy.example, X_KEY@h:80"})
    assert grants.names("OPENAI_API_KEY", address_destination("http://PROXY.example:8000/v1"))
    assert not grants.names("OPENAI_API_KEY", address_destination("http://sub.proxy.example/v1"))
    assert not grants.names("GROQ_API_KEY", address_destination("http://proxy.example/v1"))
    assert grants.names("X_KEY", address_destination("http://h:80"))
    assert not grants.names("X_KEY", address_destination("http://h:81"))
    assert not grants.names("X_KEY", Destination("program", "other"))


@pytest.mark.parametrize("entry", ["OPENAI_API_KEY", "OPENAI_API_KEY@", "@host", "A-B@host"])
def test_an_entry_that_names_no_host_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="TEAMWRIGHT_ALLOW_HOSTS is given as"):
        KeyGrants.from_environment({"TEAMWRIGHT_ALLOW_HOSTS": entry})


def test_a_variable_without_a_host_may_go_anywhere_where_that_is_an_option() -> None:
    grants = KeyGrants.parse(["A", "B@h", "B@i", "C@h", "C"])
    assert [grants.allows_anywhere(name) for name in "ABCD"] == [True, False, True, False]
    assert grants.names("B", Destination("host", "h"))
    assert grants.names("B", Destination("host", "i"))
