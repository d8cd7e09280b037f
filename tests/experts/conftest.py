from tests.kit.terminal import call, team

__all__ = ["call", "team"]
