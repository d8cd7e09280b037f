"""Strategies in which members work on parts of a task at the same time."""
