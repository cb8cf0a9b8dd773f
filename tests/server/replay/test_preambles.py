from server.replay.preambles import before_calls


def flags(history: str) -> list[bool]:
    return before_calls(history, is_user=lambda kind: kind == "u", is_call=lambda kind: kind == "c")


def test_messages_of_the_same_turn_come_before_its_call() -> None:
    assert flags("aac") == [True, True, True]


def test_a_user_message_separates_a_message_from_a_call() -> None:
    assert flags("auac") == [False, False, True, True]


def test_messages_after_the_last_call_come_before_none() -> None:
    assert flags("cra") == [True, False, False]
