"""Schemas of request bodies: the fields that clients send, and their limits."""
