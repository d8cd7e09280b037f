"""Limits of the whole cluster: rates of models, and budgets of tenants across runs."""
