import pytest

from server.errors import InvalidRequest
from server.schemas.files import read_lifetime, read_purpose


@pytest.mark.parametrize("seconds", [3_600, 2_592_000])
def test_a_file_lives_from_an_hour_to_thirty_days(seconds: int) -> None:
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(seconds)}
    assert read_lifetime(fields) == seconds


@pytest.mark.parametrize("seconds", ["3599", "2592001", "", "x", "-1"])
def test_another_lifetime_is_refused(seconds: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_lifetime({"expires_after[anchor]": "created_at", "expires_after[seconds]": seconds})
    assert caught.value.param == "expires_after.seconds"


def test_a_lifetime_in_one_part_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_lifetime({"expires_after": '{"anchor": "created_at", "seconds": 3600}'})
    assert caught.value.param == "expires_after"


@pytest.mark.parametrize(
    ("fields", "code"), [({}, "missing_required_parameter"), ({"purpose": "x"}, "invalid_value")]
)
def test_a_file_has_a_purpose(fields: dict[str, str], code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_purpose(fields)
    assert (caught.value.param, caught.value.code) == ("purpose", code)
