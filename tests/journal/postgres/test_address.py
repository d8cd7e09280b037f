import pytest

from teamwright.errors import UsageError
from teamwright.journal.postgres.address import DatabaseAddress


def test_the_schema_is_taken_from_the_address() -> None:
    address = DatabaseAddress.parse("postgresql://ada:pw@db:5433/teams?schema=team_a&sslmode=require")
    assert (address.schema, address.url) == ("team_a", "postgresql://ada:pw@db:5433/teams?sslmode=require")
    assert DatabaseAddress.parse("postgres://db/teams").schema == "teamwright"


@pytest.mark.parametrize(
    "url", ["postgresql:///teams", "postgresql:///teams?host=%2Fvar%2Frun", "postgresql://db/t?sslrootcert=a%20b"]
)
def test_the_rest_of_the_address_stays_as_it_is(url: str) -> None:
    assert DatabaseAddress.parse(url).url == url
    assert DatabaseAddress.parse(f"{url}{'&' if '?' in url else '?'}schema=team_a").url == url


@pytest.mark.parametrize("password", ["pw", "p#w", "p/w"])
def test_messages_show_no_password(password: str) -> None:
    shown = DatabaseAddress.parse(f"postgresql://ada:{password}@db:5433/teams?sslmode=require").shown
    assert shown == "postgresql://db:5433/teams?schema=teamwright"


def test_messages_show_the_folder_of_a_socket() -> None:
    shown = DatabaseAddress.parse("postgresql://ada:pw@/teams?host=%2Fvar%2Frun").shown
    assert shown == "postgresql:///var/run/teams?schema=teamwright"


@pytest.mark.parametrize("schema", ["", "a b", "A", 'x"; DROP TABLE runs; --', "a" * 60])
def test_a_schema_that_is_no_plain_name_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema of a journal"):
        DatabaseAddress.parse(f"postgresql://db/teams?schema={schema}")


def test_locks_of_two_schemas_differ() -> None:
    one, two = (DatabaseAddress.parse(f"postgresql://db/teams?schema={name}") for name in ("a", "b"))
    assert one.lock_key("run") == one.lock_key("run") != two.lock_key("run")
