"""The server: OpenAI's HTTP APIs for gpt-oss models."""
