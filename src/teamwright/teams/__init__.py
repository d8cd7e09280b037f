"""Teams, which are agents themselves, built in Python or from manifests."""
