"""What the lab's charts and tables share."""
