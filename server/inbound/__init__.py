"""Compiles requests of each API into plans: conversation, sampling parameters and grammar."""
