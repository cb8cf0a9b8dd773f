"""From the events of a turn to the events of an API, and from those to the whole answer."""
