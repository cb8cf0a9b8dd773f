"""JSON that is too large to be written or read in one step."""
