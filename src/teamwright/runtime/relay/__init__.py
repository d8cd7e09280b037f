"""The link to other processes: what a driver sends to the followers of its runs, and what a follower hears."""
