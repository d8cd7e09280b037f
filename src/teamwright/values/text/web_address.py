"""Checks addresses of servers and webhooks before anything is sent to them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

WEB_ADDRESS = re.compile(r"https?://\S+")


def is_web_address(text: str) -> bool:
    """Whether a text is an http address; one with a reference to a variable can't be checked and passes."""
    if "${" in text:
        return True
    if WEB_ADDRESS.fullmatch(text) is None or not text.isprintable():
        return False
    try:
        address = urlsplit(text)
        return bool(address.hostname) and address.port != 0
    except ValueError:  # of a bracket that is not closed, or of a port that is none
        return False
