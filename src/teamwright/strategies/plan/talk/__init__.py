"""What the lead and the members of a plan say to each other."""
