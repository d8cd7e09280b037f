"""A proxy before a Postgres server."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.kit.proxy import SocketProxy

SOCKET = ".s.PGSQL.5432"


class Proxy(SocketProxy):
    """Stands at a folder as the server does."""

    def __init__(self, server: str, folder: Path) -> None:
        super().__init__(Path(parse_qs(urlsplit(server).query)["host"][0]) / SOCKET, folder / SOCKET)
        self.url = f"postgresql://postgres:@/postgres?host={folder}"
