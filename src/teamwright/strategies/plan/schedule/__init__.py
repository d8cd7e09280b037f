"""Schedules: order, batches, budgets and handoffs of a plan."""
