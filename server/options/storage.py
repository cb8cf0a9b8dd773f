"""The options of `serve` about what is stored: responses, their encryption, uploaded files."""

from pathlib import Path
from typing import Annotated, Self

from platformdirs import user_data_path
from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from server.options.values import NOT_EMPTY, Keys

_MEMORY = "memory"
"""The value of `store` for a store in this process's memory."""


class StorageOptions(BaseSettings):
    """A part of `server.settings.Settings`."""

    store: str | None = Field(
        None,
        description="where responses are stored: sqlite:///FILE, postgresql://… or memory; "
        "default: a file in the user's data folder",
        repr=False,
    )
    store_ttl: float = Field(
        30,
        gt=0,
        description="days that responses and chat completions are stored, and conversations after "
        "their last item; inf: for ever",
    )
    store_patience: float = Field(
        60,
        ge=0,
        allow_inf_nan=False,
        description="seconds that a stored answer waits for a store that is unavailable before it "
        "fails",
    )
    store_connections: int = Field(
        15,
        ge=1,
        description="connections to the database that requests use at once; others wait for one",
    )
    encryption_key: Keys = Field(
        (),
        description="key that encrypts the reasoning that clients store: 32 bytes in URL-safe "
        "base64 (repeatable: the first one encrypts, all of them decrypt); default: one that is "
        "stored with the responses",
        repr=False,
    )
    files: Annotated[str, NOT_EMPTY] | None = Field(
        None,
        description="folder for the content of uploaded files, which gateways that share a "
        "database share too; default: a folder in the user's data folder, a temporary one with "
        "`--store memory`",
    )
    max_file_bytes: int = Field(
        512 * 1024 * 1024, ge=1, description="bytes of the largest uploaded file; more get a 413"
    )
    max_owner_file_bytes: int = Field(
        10 * 1024 * 1024 * 1024,
        ge=1,
        description="bytes of all uploaded files of one API key; more get a 413",
    )

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        if value is not None and value != _MEMORY:
            # Imported here, because `--help` must not wait for SQLAlchemy.
            from server.store.sqlalchemy_engine import parse_url

            parse_url(value)
        return value

    @field_validator("encryption_key")
    @classmethod
    def _encryption_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            return value
        from server.replay.sealing import check_key

        return tuple(map(check_key, value))

    @model_validator(mode="after")
    def _files_are_found_again(self) -> Self:
        if self.has_memory_store and self.files is not None:
            raise ValueError("--files needs a store that outlives the process, not --store memory")
        return self

    @property
    def has_memory_store(self) -> bool:
        """Whether the store is in this process's memory, and ends with it."""
        return self.store == _MEMORY

    @property
    def files_folder(self) -> Path | None:
        """The folder of uploaded files; None for a temporary one."""
        if self.has_memory_store:
            return None
        if self.files is not None:
            return Path(self.files)
        return user_data_path("gpt-oss-server", appauthor=False) / "files"
