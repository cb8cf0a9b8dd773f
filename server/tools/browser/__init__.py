"""The hosted tool `browser`: gpt-oss's own search, open and find, with pages in numbered lines."""
