"""The record of a run, indexed by key, and what it says of each part: asks, spending, deliveries, replies."""
