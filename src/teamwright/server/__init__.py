"""The server: runs over HTTP and sockets, for pages, scripts and OpenAI-compatible clients; the extra `server`.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.server.app import make_app
    from teamwright.server.state import open_state

__all__ = ["make_app", "open_state"]

__getattr__, __dir__ = lazy_names(
    __name__, {"teamwright.server.app": "make_app", "teamwright.server.state": "open_state"}
)
