"""A team as an agent of editors, over the Agent Client Protocol."""
