"""One step: a token for every row, by its sampling parameters and its grammar."""
