"""Notes about events, in words."""
