"""Runs plans: admission, sampling, the events of a turn, and the tasks that make answers."""
