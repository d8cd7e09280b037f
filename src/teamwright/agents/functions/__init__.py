"""Function agents, and how Python functions are loaded and called."""
