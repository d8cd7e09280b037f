"""The steps of a plan at work: who works on each, how far it is, and what follows when it fails."""
