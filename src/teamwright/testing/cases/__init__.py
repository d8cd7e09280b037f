"""Cases: recorded runs as tests. A case is replayed without calling anything, and then checked."""
