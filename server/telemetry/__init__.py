"""Reports the server's state to operators: whether it can take requests."""
