"""What a page shows of a run: page events, the prompts of turns, and the run as one file. Nothing here drives a run."""
