import pytest
from starlette.datastructures import QueryParams

from server.errors import InvalidRequest
from server.inbound.paging import DEFAULT_LIMIT, Paging, read_paging


def test_what_the_query_leaves_out_is_the_lists_own() -> None:
    assert read_paging(QueryParams(), order="desc") == Paging(DEFAULT_LIMIT, "desc", None)
    query = QueryParams({"limit": "100", "order": "asc", "after": "item"})
    assert read_paging(query, order="desc") == Paging(100, "asc", "item")


@pytest.mark.parametrize("limit", ["", "0", "101", "-1", "²", "1" * 5_000])
def test_a_limit_is_from_1_to_100(limit: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_paging(QueryParams({"limit": limit}))
    assert refused.value.param == "limit"
