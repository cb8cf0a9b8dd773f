"""What is stored between requests, in memory or in a database."""
