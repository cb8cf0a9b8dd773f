import pytest
from starlette.datastructures import QueryParams

from server.errors import InvalidRequest
from server.inbound.queries import (
    DEFAULT_LIMIT,
    read_boolean,
    read_filter,
    read_metadata,
    read_paging,
)
from server.store.lists import ListQuery


def test_missing_parameters_have_the_lists_defaults() -> None:
    assert read_paging(QueryParams(), order="desc") == ListQuery(DEFAULT_LIMIT, "desc", None)
    query = QueryParams({"limit": "100", "order": "asc", "after": "item"})
    assert read_paging(query, order="desc") == ListQuery(100, "asc", "item")


def test_a_boolean_is_false_unless_it_is_true() -> None:
    query = QueryParams({"a": "true", "b": "false", "c": "1"})
    assert [read_boolean(query, name) for name in ("a", "b", "none")] == [True, False, False]
    with pytest.raises(InvalidRequest) as refused:
        read_boolean(query, "c")
    assert refused.value.param == "c"


@pytest.mark.parametrize("limit", ["", "0", "101", "-1", "²", "1" * 5_000])
def test_a_limit_is_from_1_to_100(limit: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_paging(QueryParams({"limit": limit}))
    assert refused.value.param == "limit"


def test_model_and_metadata_are_filters() -> None:
    query = QueryParams({"model": "m", "metadata[a]": "1", "metadata[b]": "", "metadata": "x"})
    assert read_filter(query, "model") == "m"
    assert read_metadata(query) == {"a": "1", "b": ""}
    assert read_filter(QueryParams(), "model") is None


def test_more_labels_than_an_object_can_have_are_refused() -> None:
    pairs = [(f"metadata[{n}]", "x") for n in range(17)]
    assert len(read_metadata(QueryParams([*pairs[:16], *pairs[:16]]))) == 16
    with pytest.raises(InvalidRequest) as refused:
        read_metadata(QueryParams(pairs))
    assert refused.value.param == "metadata"


def test_text_that_postgresql_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidRequest) as model:
        read_filter(QueryParams({"model": "m\0"}), "model")
    with pytest.raises(InvalidRequest) as value:
        read_metadata(QueryParams({"metadata[a]": "\0"}))
    with pytest.raises(InvalidRequest) as key:
        read_metadata(QueryParams({"metadata[\0]": "a"}))
    params = [each.value.param for each in (model, value, key)]
    assert params == ["model", "metadata[a]", "metadata"]
