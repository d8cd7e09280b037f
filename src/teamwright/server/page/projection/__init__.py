"""The projection of the events of a journal to page events."""
