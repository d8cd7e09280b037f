"""Secrets are distinguished from settings by their names, and from plain words by their form."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright.values.names import escape_references
from teamwright.values.text.secrets import is_header, is_maskable, is_secret, is_secret_name, known_forms
from tests.growth import assert_linear

# S-06


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "STRIPE_KEY", "SECRET_KEY_BASE", "SMTP_PASS", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD",
        "GITHUB_TOKEN", "API_TOKENS", "CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "BASIC_AUTH", "OAUTH_CODE",
        "AUTHORIZATION", "SESSION_COOKIE", "DATABASE_URL", "REDIS_URL", "MONGO_URI", "SENTRY_DSN", "dbPassword",
        "my_apikey", "authToken", "X-Auth-Token", "x-api-key", "AWS_ACCESS_KEY_ID", "SLACK_WEBHOOK", "KEY",
        "PASSPHRASE", "GH_PAT", "AZURE_DEVOPS_EXT_PAT", "SMTP_CREDS",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "MODEL", "HOST", "SITE_URL", "KEYBOARD", "MONKEY", "AUTHOR", "GIT_AUTHOR_NAME", "MAX_TOKENS", "total_tokens",
        "TOKENIZERS_PARALLELISM", "PASSENGERS", "COMPASS", "BYPASS", "PATH", "PATTERN", "PWD", "OLDPWD", "PUBLIC_KEY",
        "HOME", "LANG", "",
    ],
)  # fmt: skip
def test_names_of_settings(name: str) -> None:
    assert not is_secret_name(name)


def test_fields_are_secrets_by_their_name_and_what_is_around_them() -> None:
    assert is_secret("m", "api_key")
    assert is_secret("headers", "X-Auth-Token")
    assert is_secret("env", "DB_PASS")
    assert is_secret("notify", "webhook")
    assert not is_secret("env", "PLACE")
    assert not is_secret("a", "instructions")
    assert is_header("headers", "X-Shop")
    assert not is_header("headers", "Accept")
    assert not is_header("env", "X-Shop")


@pytest.mark.parametrize(("value", "masked"), [("postgres", False), ("short-1", False), ("a" * 40, False), ("", False)])
def test_short_values_and_plain_words_are_not_masked(value: str, masked: bool) -> None:
    assert is_maskable(value) is masked
    assert known_forms(value) == frozenset()


def test_a_value_is_masked_from_twelve_characters_on() -> None:
    assert not is_maskable("ten-chars-1")
    assert is_maskable("12characters")
    assert "12characters" in known_forms(" 12characters\n")


@pytest.mark.parametrize(
    "value", ["http://[aaaaaaa", "Basic ==== ====", "https://u:p@h:port/?%zz=1", "\ud800" * 12, "=;=;" * 5]
)
def test_a_value_that_is_no_address_and_no_header_is_itself(value: str) -> None:
    assert value.strip() in known_forms(value)


@pytest.mark.parametrize("unit", ["a=1;", "Basic ", "://u:p@h/?token=1&", 'q"\\\n', "ü1"])
def test_the_forms_of_a_secret_are_found_in_proportion_to_its_length(unit: str) -> None:
    # S-01
    assert_linear(known_forms.__wrapped__, prepare=lambda size: unit * (size // len(unit)), size=20_000)


def test_a_text_without_references_is_not_changed_by_an_escape() -> None:
    said: JsonValue = {"a": ["plain", "$ 5 {x}", "${", 1, True, None, {}, []], "b": {"c": "${no name}"}}
    assert escape_references(said) == said
