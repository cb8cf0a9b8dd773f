"""What the databases in `tests/data/stores` hold, which servers of earlier versions have written.

    python -m tests.server.store.stored_objects FILE

writes a database of this version as SQL. It is needed once for each new version of the schema.
"""

import asyncio
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sqlalchemy import text

from harmony.messages import Author, Channel, Message, Role
from server.store.chat_completions.base import StoredChatCompletion
from server.store.containers.base import Container, ContainerFile
from server.store.conversations.base import Conversation
from server.store.files.base import StoredFile
from server.store.items import SampledTurn, StoredItem
from server.store.responses.base import StoredResponse
from server.store.responses.sql import SqlStore
from tests.stored import put

OWNER = "2c70e12b7a0646f92279f427c7b38e73"
NOW = 1_767_225_600
KEY = "s" * 42 + "A="
ASSISTANT = Author(Role.ASSISTANT)

THOUGHT = Message(ASSISTANT, "Hm… 東京", Channel.ANALYSIS, tokens=(200005, 35644, 200008, 0))
HOSTED_CALL = Message(
    ASSISTANT, "1 + 1", Channel.ANALYSIS, "python", "code", tokens=(200005, 201087)
)
RESULT = Message(Author(Role.TOOL, "python"), "2", Channel.ANALYSIS, "assistant")
CALL = Message(ASSISTANT, '{"a": 1}', Channel.COMMENTARY, "functions.f", "<|constrain|>json")

INPUT = StoredItem({"id": "msg_in", "type": "message", "role": "user", "content": "Hi \u0000 é"})
OUTPUT = (
    StoredItem({"id": "rs_1", "type": "reasoning", "summary": []}, THOUGHT),
    StoredItem(
        {"id": "ci_1", "type": "code_interpreter_call", "code": "1 + 1"}, HOSTED_CALL, RESULT
    ),
    StoredItem({"id": "fc_1", "type": "function_call", "call_id": "call_r", "name": "f"}, CALL),
)
FIRST = StoredResponse(
    OWNER,
    {
        "id": "resp_1",
        "created_at": NOW,
        "status": "completed",
        "previous_response_id": None,
        "conversation": None,
        "output": [each.item for each in OUTPUT],
    },
    "2026-01-01",
    (),
    (INPUT,),
    OUTPUT,
    tool_state={"code_interpreter": {"container_id": "cntr_1"}},
)
EVENTS = [
    {"type": "response.created", "sequence_number": 0},
    {"type": "response.output_text.delta", "sequence_number": 1, "delta": "é\u0000"},
    {"type": "response.completed", "sequence_number": 2, "response": FIRST.response},
]
FOLLOWING = replace(
    FIRST,
    response={
        **FIRST.response,
        "id": "resp_2",
        "previous_response_id": "resp_1",
        "output": [],
    },
    history=FIRST.items,
    input=(StoredItem({"id": "out_1", "type": "function_call_output", "call_id": "call_r"}),),
    output=(),
)

CONVERSATION = Conversation(OWNER, "conv_1", NOW, "2026-01-02", {"topic": "test"})
ITEMS = (
    StoredItem({"id": "msg_1", "type": "message", "role": "user", "content": "Hi"}),
    StoredItem({"id": "rs_2", "type": "reasoning", "summary": []}, THOUGHT),
)

COMPLETION = StoredChatCompletion(
    OWNER,
    {"id": "chatcmpl_1", "object": "chat.completion", "created": NOW, "model": "m", "metadata": {}},
    ({"id": "chatcmpl_1-0", "role": "user", "content": "Hi é"},),
    (SampledTurn((THOUGHT, CALL), {"call_c": 2}),),
)

FILE = StoredFile(OWNER, "file-1", "é.csv", "user_data", 3, NOW, 2 * NOW)
CONTAINER = Container(OWNER, "cntr_1", "box", NOW, NOW, 20, "4g")
CONTAINER_FILE = ContainerFile(
    "cfile_1", "cntr_1", "a/b.csv", 3, "user", NOW, NOW * 10**9, "file-1"
)
APPROVAL = "mcpr_69559e00000102030405060708090a0b"


async def write(store: SqlStore) -> None:
    """Store all of them."""
    await put(store, FIRST, EVENTS)
    await put(store, FOLLOWING)
    await store.conversations.create(CONVERSATION, ITEMS)
    await store.chat_completions.put(COMPLETION)
    await store.files.put(FILE)
    await store.containers.create(CONTAINER)
    await store.containers.change_files("cntr_1", (CONTAINER_FILE,))
    await store.approvals.claim(OWNER, APPROVAL)
    async with store.database.writing() as connection:
        await connection.execute(text("UPDATE secrets SET value = :key"), {"key": KEY})


async def _write(path: Path) -> None:
    store = SqlStore(f"sqlite:///{path}")
    await store.start()
    await write(store)
    await store.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        asyncio.run(_write(path))
        with closing(sqlite3.connect(path)) as database:
            Path(sys.argv[1]).write_text("\n".join(database.iterdump()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
