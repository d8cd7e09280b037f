"""Model agents: pydantic-ai behind the agent protocol."""
