"""The errors of the store, as clients get them.

Unavailable
  + StoreUnavailable    503  out of reach or full
      + StoreDamaged         an operator has to restore the file
      + StoreTooNew          of a newer version of the server
      + RunLost              the run belongs to another gateway
InvalidRequest
  + PreviousNotFound    400
"""

from server.errors import InvalidRequest, Unavailable


class StoreUnavailable(Unavailable):
    """The store cannot be reached or is full. Requests without a store can still be served."""

    default_code = "store_unavailable"


class StoreDamaged(StoreUnavailable):
    """The store's file is damaged, deleted or replaced. An operator has to restore it.

    advice: what is wrong and what to do, for the log and the terminal.
    """

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class StoreTooNew(StoreUnavailable):
    """A newer version of the server has upgraded the store."""

    def __init__(self) -> None:
        super().__init__(
            "the store was made by a newer version of gpt-oss-server; install that version, or "
            "name another --store"
        )


class RunLost(StoreUnavailable):
    """This gateway does not own the run: another took it over, or it was never begun here."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"The run of response '{response_id}' is not this server's any more.")


class PreviousNotFound(InvalidRequest):
    """The response that a new one continues does not exist, or was deleted in the meantime.

    As in OpenAI's API the status is 400: to many clients, each 404 is a model that does not exist.
    detached: whether it is stored, but not what it continues.
    """

    default_code = "previous_response_not_found"

    def __init__(self, response_id: str, *, detached: bool = False) -> None:
        message = f"Previous response with id '{response_id}' not found"
        if detached:
            message += (
                " with its earlier turns: only the WebSocket that made it could continue it, while "
                "it was its last response"
            )
        super().__init__(f"{message}.", param="previous_response_id")
