"""Attacks on a server, and what they cost its other clients."""
