"""The HTTP endpoints, one file for each resource: parse, call, return."""
