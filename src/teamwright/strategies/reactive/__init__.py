"""The strategy in which members react to events."""
