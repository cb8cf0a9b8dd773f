"""Turns that clients send back with their calls.

tests/server/routes/test_recalled_reasoning.py has tests through the whole server.
"""

from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.response_turns import restore_turns
from server.store.items import StoredItem

CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
SAMPLED_CALL = Message(
    Author(Role.ASSISTANT), "{}", Channel.COMMENTARY, "functions.f", "json", tokens=(9,)
)
RESULT = StoredItem({"type": "function_call_output", "id": "fco", "call_id": "c", "output": "1"})


class Counted(dict[str, Any]):
    """An item that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        self.reads += key == "content"
        return super().__getitem__(key)


def preamble(text: str, number: int) -> StoredItem:
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "phase": "commentary"}
    message = Message(Author(Role.ASSISTANT), text, Channel.COMMENTARY, tokens=(number,))
    return StoredItem(item | {"content": text}, message)


def received(text: Any, name: str = "mine") -> StoredItem:
    item = Counted(type="message", id=name, role="assistant", content=text)
    return StoredItem(item)


def sampled(*texts: str) -> dict[str, tuple[StoredItem, ...]]:
    messages = tuple(preamble(text, number) for number, text in enumerate(texts))
    return {"c": (*messages, StoredItem(CALL, SAMPLED_CALL))}


def test_each_item_is_read_once() -> None:
    own = [received("y", name) for name in ("a", "b")]
    repeated = restore_turns([*own, StoredItem(CALL)], sampled(*map(str, range(20))))
    assert [each.message for each in repeated] == [None, None, SAMPLED_CALL]
    assert [each.item.reads for each in own] == [1, 1]  # type: ignore[attr-defined]


def test_a_cited_preamble_comes_back_with_its_links() -> None:
    own = [received("Look ([a.example](https://a.example))."), StoredItem(CALL)]
    repeated = restore_turns(own, sampled("Look【1†L0】."))
    assert [each.message for each in repeated] == [
        each.message for each in sampled("Look【1†L0】.")["c"]
    ]


def test_equal_preambles_are_matched_in_order() -> None:
    turns_up_to_calls = sampled("x", "y", "x")
    own = [received("x", "a"), received("x", "b"), received("x", "c"), StoredItem(CALL)]
    repeated = restore_turns(own, turns_up_to_calls)
    messages = [each.message for each in turns_up_to_calls["c"]]
    assert [each.message for each in repeated] == [messages[0], messages[2], None, messages[3]]


REASONING = StoredItem(
    {"type": "reasoning", "id": "rs", "content": [{"type": "reasoning_text", "text": "Hm."}]},
    Message(Author(Role.ASSISTANT), "Hm.", Channel.ANALYSIS, tokens=(5,)),
)
HOSTED = StoredItem(
    {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "cntr_1"},
    Message(Author(Role.ASSISTANT), "1", Channel.ANALYSIS, "python", "code", tokens=(6,)),
    Message(Author(Role.TOOL, "python"), "1", Channel.ANALYSIS, "assistant"),
)
LOOP = (REASONING, HOSTED, *sampled("x")["c"])


def test_dropped_calls_of_hosted_tools_are_inserted_with_their_results() -> None:
    assert restore_turns([StoredItem(CALL)], {"c": LOOP}) == (REASONING, HOSTED, LOOP[-1])


def test_dropped_calls_of_hosted_tools_are_inserted_beside_reasoning_that_came_back() -> None:
    own = [StoredItem(REASONING.item), received("x"), StoredItem(CALL)]
    repeated = restore_turns(own, {"c": LOOP})
    assert [each.message for each in repeated] == [each.message for each in LOOP]
    assert [each.result for each in repeated] == [each.result for each in LOOP]


def test_a_preamble_after_one_that_the_client_added_is_as_it_was_sampled() -> None:
    turn = (REASONING, *sampled("x")["c"])
    own = [received("new"), received("x"), StoredItem(CALL)]
    repeated = restore_turns(own, {"c": turn})
    assert repeated == (REASONING, own[0], StoredItem(own[1].item, turn[1].message), turn[2])


def test_calls_of_hosted_tools_that_came_back_get_their_results() -> None:
    item = {key: HOSTED.item[key] for key in ("type", "id", "code")} | {"outputs": None}
    own = [StoredItem(item | {"id": "mine"}), received("x"), StoredItem(CALL)]
    repeated = restore_turns(own, {"c": LOOP})
    assert [each.message for each in repeated] == [each.message for each in LOOP]
    assert repeated[1].result == HOSTED.result


def test_reasoning_that_came_back_in_another_place_is_not_inserted() -> None:
    question = StoredItem({"type": "message", "id": "q", "role": "user", "content": "And?"})
    own = [REASONING, question, StoredItem(CALL)]
    assert restore_turns(own, {"c": LOOP}) == (REASONING, question, HOSTED, LOOP[-1])


def test_nothing_is_inserted_before_a_changed_call() -> None:
    changed = StoredItem(CALL | {"arguments": '{"a":1}'})
    assert restore_turns([changed], {"c": LOOP}) == (changed,)


def test_a_changed_call_of_a_hosted_tool_stays_as_it_came() -> None:
    changed = StoredItem(HOSTED.item | {"id": "mine", "code": "2"})
    own = [changed, received("x"), StoredItem(CALL)]
    repeated = restore_turns(own, {"c": LOOP})
    assert repeated == (REASONING, changed, StoredItem(own[1].item, LOOP[2].message), LOOP[-1])


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_an_item_of_another_kind_ends_the_turn(role: str) -> None:
    search = StoredItem({"type": "file_search_call", "id": "fs", "role": role})
    repeated = restore_turns([received("x"), search, StoredItem(CALL)], sampled("x"))
    assert [each.message for each in repeated] == [None, None, SAMPLED_CALL]


def test_an_error_names_the_bad_item() -> None:
    with pytest.raises(InvalidRequest) as refused:
        restore_turns([received("x", "a"), received(5, "b"), StoredItem(CALL)], sampled("y"))
    assert refused.value.param == "input.1.content"


def test_a_call_that_is_sent_again_brings_its_reasoning_once() -> None:
    again = StoredItem({**CALL, "id": "fc_again"})
    turns = {"c": (REASONING, StoredItem(CALL, SAMPLED_CALL))}
    repeated = restore_turns([StoredItem(CALL), again], turns)
    assert [each.item["id"] for each in repeated] == ["rs", "fc", "fc_again"]
    history = [REASONING, StoredItem(CALL, SAMPLED_CALL), RESULT]
    continued = restore_turns([again], turns, history)
    assert [each.item["id"] for each in continued] == ["fc_again"]
    assert continued[0].message is SAMPLED_CALL


def test_the_turn_of_a_call_that_waits_for_its_result_is_not_repeated() -> None:
    history = [REASONING, *sampled("x", "y")["c"]]
    turns = {"c": history}
    own = [received("x"), received("mine"), StoredItem({**CALL, "id": "fc_again"}), RESULT]
    assert restore_turns(own, turns, history) == (own[1], RESULT)
    two = {**turns, "d": [StoredItem({**CALL, "call_id": "d"}, SAMPLED_CALL)]}
    both = [own[2], RESULT, *two["d"]]
    assert restore_turns(both, two, [*history, *two["d"]]) == (RESULT,)


def test_earlier_turns_are_not_repeated_before_a_call_that_waits_for_its_result() -> None:
    """As Open WebUI sends them: all calls and results of an answer, each time."""
    first, second = (StoredItem({**CALL, "call_id": name}, SAMPLED_CALL) for name in ("c", "d"))
    history = [REASONING, first, RESULT, second]
    turns = {"c": history[:2], "d": [second]}
    results = [StoredItem({**RESULT.item, "call_id": name, "id": name}) for name in ("c", "d")]
    own = [StoredItem({**CALL, "id": "fc_again"}), results[0], second, results[1]]
    assert restore_turns(own, turns, history) == (results[1],)
    other = StoredItem({**results[0].item, "output": "2"})
    assert restore_turns([own[0], other, *own[2:]], turns, history) == (other, results[1])


def user(content: Any, name: str = "msg") -> StoredItem:
    return StoredItem({"type": "message", "id": name, "role": "user", "content": content})


def test_the_question_of_a_call_that_waits_for_its_result_is_not_repeated() -> None:
    """As Strands and Semantic Kernel send it, the latter without calls and reasoning."""
    first, second = (StoredItem({**CALL, "call_id": name}, SAMPLED_CALL) for name in ("c", "d"))
    says = preamble("Look.", 5)
    history = [user("hi"), REASONING, first, RESULT, says, second]
    turns = {"c": history[1:3], "d": [says, second]}
    results = [StoredItem({**RESULT.item, "call_id": name, "id": name}) for name in ("c", "d")]
    whole = [user("hi", "again"), first, results[0], received("Look."), second, results[1]]
    assert restore_turns(whole, turns, history) == (results[1],)
    without_calls = [whole[0], results[0], whole[3], results[1]]
    assert restore_turns(without_calls, turns, history) == (results[1],)
    other = [user("ho", "again"), *whole[1:]]
    assert restore_turns(other, turns, history)[0] is other[0]


def test_a_question_that_is_asked_again_without_a_result_stays() -> None:
    history = [user("hi"), *sampled()["c"]]
    again = (user("hi", "again"),)
    assert restore_turns(again, {"c": history[1:]}, history) == again


@pytest.mark.parametrize("again", [user("hi", "again"), received("Look.")])
def test_a_text_that_is_sent_again_after_the_result_stays(again: StoredItem) -> None:
    """As a reminder that a client adds to each result."""
    history = [user("hi"), preamble("Look.", 5), *sampled()["c"]]
    own = (RESULT, again, user("ho", "next"))
    assert restore_turns(own, {"c": history[1:]}, history) == own


def test_an_earlier_question_that_is_asked_again_stays_before_the_result() -> None:
    answer = received("Hello!", "msg_answer")
    history = [user("hi"), answer, user("ho"), *sampled()["c"]]
    own = (user("hi", "again"), RESULT)
    assert restore_turns(own, {"c": history[3:]}, history) == own


def test_no_reasoning_follows_a_call_that_waits_for_its_result_without_it() -> None:
    """As in a conversation whose reasoning the client has deleted."""
    turns = {"c": (REASONING, StoredItem(CALL, SAMPLED_CALL))}
    own = [StoredItem({**CALL, "id": "fc_again"}), RESULT]
    assert restore_turns(own, turns, [StoredItem(CALL, SAMPLED_CALL)]) == (RESULT,)


def test_a_call_that_is_sent_again_after_another_message_stays_before_its_result() -> None:
    history = sampled()["c"]
    user = StoredItem({"type": "message", "id": "msg", "role": "user", "content": "hi"})
    own = [user, StoredItem({**CALL, "id": "fc_again"}), RESULT]
    repeated = restore_turns(own, {"c": history}, history)
    assert [each.item["id"] for each in repeated] == ["msg", "fc_again", "fco"]
    repeated = restore_turns(own[1:], {"c": history}, [*history, user])
    assert [each.item["id"] for each in repeated] == ["fc_again", "fco"]
