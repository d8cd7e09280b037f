"""Teams: agents made of agents, in Python and from manifests."""
