"""Model agents: pydantic-ai behind the signature of an agent."""
