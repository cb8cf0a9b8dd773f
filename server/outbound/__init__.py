"""Convert turn events to the wire events of each API, and fold wire events into whole answers."""
