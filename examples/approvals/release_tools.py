"""What the operator can do to the ticket machines. Here it only says so."""


def deploy(version: str, where: str, *, idempotency_key: str) -> str:
    """Put a version on ticket machines: `where` is one of them by name, or `all`."""
    return f"{version} runs on {where} (order {idempotency_key[:6]})"
