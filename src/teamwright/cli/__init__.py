"""The command line: events and results to the terminal. It reads and drives runs and never records anything itself."""
