"""The demo checkpoint: its training, its evaluation, and the files that it is made from."""
