"""Connections and their limits, and which requests may come in."""
