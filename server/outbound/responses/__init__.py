"""The Responses API: its events, its output items, and the responses that they make."""
