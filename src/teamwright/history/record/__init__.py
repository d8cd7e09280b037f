"""The record of a run, indexed by key: asks, charges, deliveries, replies and the workspace."""
