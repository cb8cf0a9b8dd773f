"""The command line: serve, doctor, chat, render a prompt, parse a completion."""
