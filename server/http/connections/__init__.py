"""Connections: uvicorn's protocol with limits, and what closes a connection."""
