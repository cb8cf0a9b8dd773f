"""What a terminal offers: serve, doctor, chat, render a prompt, parse a completion."""
