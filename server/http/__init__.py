"""HTTP: connections, bodies, answers; authentication, origins, middleware, retries."""
