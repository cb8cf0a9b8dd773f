"""Requests to addresses that a model or a client of the API chose, limited to public targets."""
