"""Runs that are recorded: read, listed, followed, continued as conversations, and told apart by their ids."""
