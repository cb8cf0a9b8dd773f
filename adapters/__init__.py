"""The engines: each takes token ids and returns token ids."""
