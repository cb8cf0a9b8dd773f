"""`gpt-oss-server doctor`: whether `serve` would run here with the same options."""
