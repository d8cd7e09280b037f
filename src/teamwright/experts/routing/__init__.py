"""Routing: whether one agent or a team of experts takes a task, and why."""
