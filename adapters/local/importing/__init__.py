"""Importing transformers in less time and memory."""
