"""People in a run: questions to them, what they change while it runs, and webhooks that tell them."""
