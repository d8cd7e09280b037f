"""Function agents: loading Python functions, and calling them in threads and processes."""
