"""What third parties test their parts with: conformance suites, and a model server on loopback."""
