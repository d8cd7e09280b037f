"""The server: runs over HTTP and sockets, for pages, scripts and OpenAI-compatible clients; the extra `server`.

Names load on first use, so that importing the package is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
