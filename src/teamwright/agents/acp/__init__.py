"""Coding agents as members, over the Agent Client Protocol."""
