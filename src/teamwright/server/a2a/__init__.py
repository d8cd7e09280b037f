"""Every team as a durable A2A agent: its card and its tasks, which are runs; and remote agents as members."""
