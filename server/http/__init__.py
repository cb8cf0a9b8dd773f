"""HTTP: connections and limits, authentication, reading bodies, writing answers and streams."""
