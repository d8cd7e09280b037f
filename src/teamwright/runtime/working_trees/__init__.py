"""The files that members work on: a private repository of the run, a tree for each turn, and the team's branch."""
