"""The server: OpenAI's HTTP APIs in front of gpt-oss models."""
