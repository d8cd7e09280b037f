"""How long an import takes in a fresh interpreter, without the interpreter's own start."""

_SCRIPT = "import time; started = time.perf_counter(); {statement}; print(time.perf_counter() - started)"


def import_command(statement: str) -> list[str]:
    """Arguments of a Python that imports and prints the seconds it took."""
    return ["-c", _SCRIPT.format(statement=statement)]
