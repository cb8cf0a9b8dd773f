"""The command line: serve, chat, render a prompt, parse a completion."""
