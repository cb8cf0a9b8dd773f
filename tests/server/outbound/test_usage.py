from server.generation.turn_events import Usage
from server.outbound.usage import usage_object


def test_samples_share_their_prompt_but_not_those_of_later_turns() -> None:
    one = Usage(input=30, cached=8, output=5, later_input=20, later_cached=6)
    other = Usage(input=50, cached=12, output=6, later_input=40, later_cached=10)
    usage = usage_object([one], [one, other])
    assert usage["prompt_tokens"] == 10 + 20 + 40
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2 + 6 + 10
    assert usage["completion_tokens"] == 11
