"""Tools of agents, one file per kind."""
