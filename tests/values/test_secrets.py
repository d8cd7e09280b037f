"""What is a secret is known by its name, and by what is around it."""

import pytest

from teamwright.values.secrets import is_secret, is_written_out


@pytest.mark.parametrize(
    ("parent", "name"),
    [
        ("m", "api_key"), ("headers", "Authorization"), ("options", "Authorization"), ("headers", "X-Auth-Token"),
        ("headers", "Cookie"), ("env", "GITHUB_TOKEN"), ("env", "DB_PASSWD"), ("env", "PRIVATE_KEY"),
        ("env", "GOOGLE_CREDENTIALS"), ("env", "AWS_SECRET_ACCESS_KEY"), ("notify", "webhook"),
    ],
)  # fmt: skip
def test_secrets_are_known_by_their_names(parent: str, name: str) -> None:
    assert is_secret(parent, name)


@pytest.mark.parametrize(
    ("parent", "name"),
    [
        ("env", "PATH"), ("env", "MAX_TOKENS"), ("env", "TOKENIZERS_PARALLELISM"), ("headers", "Accept"),
        ("properties", "token"), ("tools", "webhook"), ("a", "instructions"),
    ],
)  # fmt: skip
def test_other_names_are_not(parent: str, name: str) -> None:
    assert not is_secret(parent, name)


@pytest.mark.parametrize(
    ("text", "written"),
    [("abc", True), ("", False), (" ", False), ("${A}", False), ("Bearer ${A}", False), ("a$${A}", True), ("${", True)],
)
def test_what_names_the_environment_is_not_written_out(text: str, written: bool) -> None:
    assert is_written_out(text) is written
