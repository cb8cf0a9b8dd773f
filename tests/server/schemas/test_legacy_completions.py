import pytest
from pydantic import ValidationError

from server.schemas.legacy_completions import CreateCompletion


@pytest.mark.parametrize(("best_of", "is_valid"), [(0, False), (1, True), (20, True), (21, False)])
def test_at_most_twenty_answers_are_sampled_of_which_the_best_are_chosen(
    best_of: int, is_valid: bool
) -> None:
    body = {"model": "m", "prompt": "p", "best_of": best_of}
    if is_valid:
        assert CreateCompletion.model_validate(body).best_of == best_of
    else:
        with pytest.raises(ValidationError, match="best_of"):
            CreateCompletion.model_validate(body)
