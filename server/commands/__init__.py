"""What a terminal offers: serve, chat, render a prompt, parse a completion."""
