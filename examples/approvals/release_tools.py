"""The tools of the operator. This example only reports what it would do."""


def deploy(version: str, where: str, *, idempotency_key: str) -> str:
    """Put a version on ticket machines: `where` is one of them by name, or `all`."""
    return f"{version} runs on {where} (order {idempotency_key[:6]})"
