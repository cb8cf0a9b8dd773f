"""The wire types of requests."""
