"""Summaries of reasoning for end users: written in parts while the model reasons, and screened."""
