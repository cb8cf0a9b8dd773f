"""Request bodies: decompressed, counted against a budget, and parsed as JSON or as a form."""
