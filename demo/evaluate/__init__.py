"""Measures the demo model: `python -m demo.evaluate`. Unconstrained, on cases it has not seen.

Cases come from a seed of their own and from words that training never uses; a case of several
turns continues with the sampled output of the model. Prints the table of docs/demo.md.
"""
