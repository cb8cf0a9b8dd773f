"""The states of tools that are found by items."""

from server.replay.tool_states import RecalledStates

STATE = {"browser": {"version": 1}}


def test_a_state_is_found_by_the_items_of_its_owner() -> None:
    states = RecalledStates()
    states.remember("a", "ws_1", STATE)
    assert states.find("a", ["ws_2", "ws_1"]) == STATE
    assert states.find("b", ["ws_1"]) == {}


def test_states_are_bounded() -> None:
    states = RecalledStates(capacity=60)
    for name in ("ws_1", "ws_2", "ws_3"):
        states.remember("a", name, STATE)
    assert states.find("a", ["ws_1"]) == {}
    assert states.find("a", ["ws_3"]) == STATE
    states.remember("a", "ws_4", {"browser": {"text": "x" * 100}})
    assert states.find("a", ["ws_4"]) == {}


def test_the_least_recently_used_state_is_dropped_first() -> None:
    states = RecalledStates(capacity=60)
    for name in ("ws_1", "ws_2"):
        states.remember("a", name, STATE)
    states.find("a", ["ws_1"])
    states.remember("a", "ws_3", STATE)
    assert states.find("a", ["ws_1"]) == STATE
    assert states.find("a", ["ws_2"]) == {}


def test_a_state_is_found_for_some_time_only() -> None:
    states = RecalledStates(seconds=0)
    states.remember("a", "ws_1", STATE)
    assert states.find("a", ["ws_1"]) == {}
