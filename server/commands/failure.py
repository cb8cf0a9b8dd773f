"""The error of a command that fails for a reason outside of this program."""


class CommandFailed(Exception):
    """A command failed. The message is one line for the user. status: the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
