"""The models that each framework is handed: what they are asked is a request of the guest's turn."""
