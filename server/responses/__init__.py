"""The Responses API below its routes: creation, compaction, and turns over a WebSocket."""
