"""The graph of a plan, the keys of its steps, and its batches before it runs."""
