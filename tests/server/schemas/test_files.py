import pytest

from server.errors import InvalidRequest
from server.schemas.files import read_lifetime


def test_a_lifetime_in_one_part_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_lifetime({"expires_after": '{"anchor": "created_at", "seconds": 3600}'})
    assert caught.value.param == "expires_after"
