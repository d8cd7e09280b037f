"""What is known about work before it is done: plans as pure values and functions."""
