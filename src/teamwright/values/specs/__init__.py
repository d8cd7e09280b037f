"""What users declare: manifests, plans, and how members behave in a simulation."""
