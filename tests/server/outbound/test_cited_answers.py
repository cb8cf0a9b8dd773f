"""Citations in the events of both APIs: pieces, logprobs, cut-off and interrupted answers."""

import random
from typing import Any

import orjson
import pytest

from adapters.base import TokenLogprobs
from harmony.events import MessageStarted
from harmony.messages import Author, Message, Role
from server.errors import ServerFailed
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.chat.chunks import ChatOutbound, ChatRenderOptions
from server.outbound.chat.fold import fold as fold_chat
from server.outbound.citations import CitationRewriter
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.fold import fold
from server.outbound.responses.interrupted import end_interrupted
from server.tools.base import Citation
from tests.server.outbound.chat.test_chunks import SHARED
from tests.server.outbound.responses.test_events import CREATED, FINAL
from tests.server.tools.hosted import SEARCH, declared, plan

TEXT = "𝒳 says【1†L0-L2】【1†L5】 so 【 and 【2†L1,L7】 but【9†L1】 not【1†L"
URLS = {1: "https://www.a.example/x", 2: "https://b.example/"}
ONE, TWO = "([a.example](https://www.a.example/x))", "([b.example](https://b.example/))"
REWRITTEN = f"𝒳 says {ONE} so 【 and {TWO} but not【1†L"
END = TurnFinished("stop", Usage(1))


def resolve(cursor: int, line: int | None) -> Citation | None:
    return Citation(URLS[cursor], f"Page {cursor}") if cursor in URLS else None


def rewriter() -> CitationRewriter:
    return CitationRewriter(resolve)


def message(*pieces: str, logprobs: bool = False) -> list[TurnEvent]:
    entry = (TokenLogprobs(64, -1.0),) if logprobs else ()
    deltas = [TextDelta(0, piece, entry) for piece in pieces]
    sampled = Message(Author(Role.ASSISTANT), "".join(pieces), FINAL.channel)
    return [MessageStarted(0, FINAL), *deltas, MessageClosed(0, FINAL, sampled, True)]


def responses() -> ResponsesOutbound:
    return ResponsesOutbound(CREATED, plan(tools=declared(SEARCH)), rewriter=rewriter)


def chat(**options: Any) -> ChatOutbound:
    asked = plan(tools=declared(SEARCH), top_logprobs=0)
    return ChatOutbound(SHARED, asked, ChatRenderOptions(**options), citations=rewriter())


def play(out: Any, events: list[TurnEvent]) -> list[dict[str, Any]]:
    return [*out.start(), *(wire for event in events for wire in out.push(event))]


def pieces(seed: int) -> list[str]:
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(TEXT)), draw.randrange(len(TEXT) - 1)))
    return [TEXT[a:b] for a, b in zip([0, *cuts], [*cuts, len(TEXT)], strict=True)]


@pytest.mark.parametrize("seed", range(200))
def test_every_split_gives_the_same_answer(seed: int) -> None:
    split = message(*pieces(seed))
    out = responses()
    events = play(out, [*split, END])
    (part,) = fold(events)["output"][0]["content"]
    assert part["text"] == REWRITTEN
    links = [REWRITTEN[each["start_index"] : each["end_index"]] for each in part["annotations"]]
    assert links == [ONE, TWO]
    assert out.dropped_citations == 1
    added = [each for each in events if each["type"] == "response.output_text.annotation.added"]
    assert [each["annotation_index"] for each in added] == [0, 1]
    assert [each["annotation"] for each in added] == part["annotations"]
    texts = [each["delta"] for each in events if each["type"] == "response.output_text.delta"]
    assert "".join(texts) == REWRITTEN
    completion = chat()
    shown = fold_chat(play(completion, [*split, END]))["choices"][0]["message"]
    assert shown["content"] == REWRITTEN
    assert completion.dropped_citations == 1
    assert [each["url_citation"] for each in shown["annotations"]] == [
        {name: value for name, value in each.items() if name != "type"}
        for each in part["annotations"]
    ]


def test_every_token_keeps_its_logprobs() -> None:
    split = message("A", "【1†", "L1】", "【9†", "L1】", logprobs=True)
    (part,) = fold(play(responses(), [*split, END]))["output"][0]["content"]
    assert (part["text"], len(encoded_and_read(part["logprobs"]))) == (f"A {ONE}", 5)
    (choice,) = fold_chat(play(chat(), [*split, END]))["choices"]
    assert len(encoded_and_read(choice["logprobs"]["content"])) == 5


def encoded_and_read(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


def test_an_answer_of_an_unknown_marker_alone_is_empty() -> None:
    split = [*message("【9†L1】"), END]
    (choice,) = fold_chat(play(chat(), split))["choices"]
    assert choice["message"]["content"] == ""
    assert fold(play(responses(), split))["output"][0]["content"][0]["text"] == ""


def test_an_answer_of_a_link_alone_is_not_empty() -> None:
    *_, link, annotations, last = play(chat(), [*message("【1†L1】"), END])
    assert link["choices"][0]["delta"] == {"content": ONE}
    assert annotations["choices"][0]["delta"].keys() == {"annotations"}
    assert last["choices"][0]["delta"] == {}


def test_a_failed_answer_shows_the_withheld_text() -> None:
    out = responses()
    events = play(out, message("A【1†L1】 b【1†")[:-1])
    failed = [*events, *out.fail(ServerFailed("x"))]
    (part,) = fold(failed)["output"][0]["content"]
    assert part["text"] == f"A {ONE} b【1†"
    assert len(part["annotations"]) == 1


def test_an_interrupted_answer_has_its_annotations() -> None:
    events = play(responses(), message("A【1†L1】 b")[:-1])
    (part,) = fold(end_interrupted(CREATED, events))["output"][0]["content"]
    assert part["text"] == f"A {ONE} b"
    assert [each["url"] for each in part["annotations"]] == [URLS[1]]


def test_without_citations_markers_stay() -> None:
    out = ResponsesOutbound(CREATED, plan())
    (part,) = fold(play(out, [*message(TEXT), END]))["output"][0]["content"]
    assert (part["text"], part["annotations"]) == (TEXT, [])
    assert ChatOutbound(SHARED, plan()).dropped_citations == 0


def test_ranges_in_chat_count_the_message_before() -> None:
    split = [*message("First, a preamble."), *message("So【1†L1】."), END]
    (choice,) = fold_chat(play(chat(), split))["choices"]
    shown = choice["message"]
    (link,) = (each["url_citation"] for each in shown["annotations"])
    assert shown["content"][link["start_index"] : link["end_index"]] == ONE


def test_an_answer_of_chat_that_fails_has_its_withheld_text_and_annotations() -> None:
    out = chat()
    play(out, message("A【1†L1】 b【1†")[:-1])
    text, annotations, error = out.fail(ServerFailed("broken"))
    assert [choice["delta"] for choice in text["choices"]] == [{"content": "【1†"}]
    ((link,),) = [choice["delta"]["annotations"] for choice in annotations["choices"]]
    assert link["url_citation"]["url"] == URLS[1]
    assert error["error"]["message"] == "broken"
