"""The options of `serve` by subject: parts of `server.settings.Settings`."""
