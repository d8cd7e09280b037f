"""The clients of models: connections, transports, and the embedded model."""
