"""A proxy before a Postgres server."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.kit.proxy import SocketProxy

SOCKET = ".s.PGSQL.5432"


class Proxy(SocketProxy):
    """Stands at a folder as the server does, for the database of an address."""

    def __init__(self, server: str, folder: Path) -> None:
        parts = urlsplit(server)
        super().__init__(Path(parse_qs(parts.query)["host"][0]) / SOCKET, folder / SOCKET)
        self.url = f"postgresql://postgres:@{parts.path}?host={folder}"
