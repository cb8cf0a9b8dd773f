"""Connections and their limits, authentication, reading bodies, and writing answers and streams."""
