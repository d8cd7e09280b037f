"""What clients follow: channels of runs, the place of each client in them, and the list of runs."""
