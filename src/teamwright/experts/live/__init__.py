"""Live teams: members who talk to each other, and teams that people change while they work."""
