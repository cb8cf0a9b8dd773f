"""The store: what clients keep on this server, in memory or in a database."""
