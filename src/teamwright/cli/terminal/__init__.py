"""The terminal: stdout, stderr, options, interrupts and exit codes."""
