"""What servers of earlier versions have written is read, whatever the formats are now."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from server.store.responses.sql import SqlStore
from tests.server.store import stored_objects as stored

DATABASES = Path(__file__).parents[2] / "data/stores"


@pytest.fixture(params=sorted(path.stem for path in DATABASES.glob("*.sql")))
async def written(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store that a server with an earlier version of the schema has written."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((DATABASES / f"{request.param}.sql").read_text(encoding="utf-8"))
    store = SqlStore(f"sqlite:///{path}")
    await store.start()
    yield store
    await store.stop()


async def test_responses_are_read_with_their_events(written: SqlStore) -> None:
    for response in (stored.FIRST, stored.FOLLOWING):
        assert await written.get(stored.OWNER, response.id) == response
    ledger = await written.ledger(stored.OWNER, stored.FIRST.id)
    assert ledger is not None
    assert [*ledger.events] == stored.EVENTS


async def test_items_are_found_by_their_ids_and_calls(written: SqlStore) -> None:
    (_, _, call) = stored.OUTPUT
    assert await written.items(stored.OWNER, ["fc_1"]) == {"fc_1": call}
    turns = await written.turns_up_to_calls(stored.OWNER, ["call_r"])
    assert {call_id: tuple(turn) for call_id, turn in turns.items()} == {"call_r": stored.OUTPUT}


async def test_conversations_are_read_with_their_items(written: SqlStore) -> None:
    read = await written.conversations.read(stored.OWNER, stored.CONVERSATION.id)
    assert read is not None
    assert (read.conversation, read.items) == (stored.CONVERSATION, stored.ITEMS)


async def test_completions_are_read_with_their_messages(written: SqlStore) -> None:
    completions, completion = written.chat_completions, stored.COMPLETION
    assert await completions.get(stored.OWNER, completion.id) == completion.completion
    messages = await completions.messages(stored.OWNER, completion.id)
    assert messages is not None
    assert tuple(messages) == completion.messages
    up_to_call = await completions.messages_up_to_call(stored.OWNER, ["call_c"])
    assert up_to_call == {"call_c": (stored.THOUGHT, stored.CALL)}


async def test_files_and_containers_are_read(written: SqlStore) -> None:
    assert await written.files.get(stored.OWNER, stored.FILE.id, stored.NOW) == stored.FILE
    assert await written.containers.get(stored.OWNER, "cntr_1") == stored.CONTAINER
    assert await written.containers.files("cntr_1") == (stored.CONTAINER_FILE,)


async def test_an_approval_stays_answered(written: SqlStore) -> None:
    assert await written.approvals.answered(stored.OWNER, stored.APPROVAL)


async def test_the_key_of_seals_stays_the_same(written: SqlStore) -> None:
    assert written.sealing_key == stored.KEY
