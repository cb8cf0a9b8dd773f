import asyncio

from adapters.inbox import Inbox


async def test_an_inbox_hands_over_what_has_piled_up() -> None:
    inbox = Inbox[int]()
    inbox.put(1)
    inbox.put(2)
    assert await inbox.take() == [1, 2]
    waiting = asyncio.ensure_future(inbox.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.put(3)
    assert await waiting == [3]
