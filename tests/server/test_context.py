from dataclasses import replace
from typing import Any

import pytest

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from server.context import Context
from server.errors import NotFound
from server.settings import Settings
from tests.contexts import new_context


@pytest.fixture
def context() -> Context:
    backend = ScriptedBackend(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
    settings = Settings(served_model_name=("a", "b"))
    return new_context(settings, backend)


def test_a_request_without_a_model_gets_the_first(context: Context) -> None:
    assert context.model(None) == "a"


def test_a_served_model_is_answered_under_its_own_name(context: Context) -> None:
    assert context.model("b") == "b"


@pytest.mark.parametrize("name", ["", "A", "c"])
def test_any_other_model_is_not_found(context: Context, name: str) -> None:
    with pytest.raises(NotFound) as refusal:
        context.model(name)
    assert (refusal.value.param, refusal.value.code) == ("model", "model_not_found")


def test_the_names_are_the_settings(context: Context) -> None:
    assert context.models == ("a", "b")
    assert replace(context, settings=Settings(model="m")).models == ("m",)


def test_each_of_several_keys_has_cached_prompts_of_its_own(context: Context) -> None:
    several = replace(context, settings=Settings(api_key=("a", "b")))
    assert several.cache_salt("alice") == several.compiling("alice", "resp").cache_salt
    assert len({several.cache_salt("alice"), several.cache_salt("bob"), "alice", None}) == 4


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(api_key=("a",)),
        Settings(api_key=("a", "b"), share_cache=True),
    ],
)
def test_cached_prompts_are_shared_where_there_are_not_several_keys_or_it_is_asked_for(
    context: Context, settings: Settings
) -> None:
    assert replace(context, settings=settings).cache_salt("alice") is None


@pytest.mark.parametrize(
    ("asked", "cheap", "when"),
    [
        (None, True, "always"),
        (None, False, "needed"),
        ("needed", True, "needed"),
        ("never", True, "never"),
        ("always", False, "always"),
    ],
)
def test_plain_conversations_are_masked_where_it_is_asked_for_or_costs_little(
    context: Context, monkeypatch: pytest.MonkeyPatch, asked: Any, cheap: bool, when: str
) -> None:
    info = replace(context.gateway.backend.info, masks_are_cheap=cheap)
    monkeypatch.setattr(ScriptedBackend, "info", info)
    settings = Settings(constrain=asked)
    assert replace(context, settings=settings).masking.when == when
