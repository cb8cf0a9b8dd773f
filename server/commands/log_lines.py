"""The form of log lines on standard error, the same for all commands that serve."""

import logging
from datetime import datetime


def log_to_stderr(level: int | str) -> None:
    """Log what is of `level` or above, each line with its time, level and module."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger().setLevel(level)
    log_no_details("httpx", "httpx2")  # they log whole URLs, which hold queries and keys


def log_no_details(*packages: str) -> None:
    """Log of these packages only warnings and worse, and no more than of all others."""
    for package in packages:
        logging.getLogger(package).setLevel(max(logging.WARNING, logging.getLogger().level))


class _Formatter(logging.Formatter):
    """Formats times as ISO 8601 has them, with the offset from UTC."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The local time of the record."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
