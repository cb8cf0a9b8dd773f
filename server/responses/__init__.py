"""What HTTP and WebSocket share of the Responses API: creating, compaction, WebSocket turns."""
