"""The store: responses, conversations and chat completions, in memory or in a database."""
