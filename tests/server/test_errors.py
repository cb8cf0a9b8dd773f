import pytest

from adapters.base import GenerationRequest
from adapters.errors import (
    BackendError,
    BackendFailed,
    ContextTooLong,
    DeadEnd,
    EngineDied,
    EngineFault,
    InvalidGrammar,
    NotReady,
    Overloaded,
    Rejected,
    Unreached,
    Unsupported,
)
from adapters.http.refusals import error_of_status
from server.errors import (
    MAX_MESSAGE,
    MAX_PARAM,
    APIError,
    AuthenticationFailed,
    BodyTooLarge,
    ContextLengthExceeded,
    EngineDown,
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServerFailed,
    Unavailable,
    engine_down,
    from_backend,
)

MASKED = GenerationRequest("r", (1,), 1, frozenset(), grammar="start: <[1]>")


def test_the_body_is_openais_error_object() -> None:
    error = InvalidRequest("No.", param="input.0", code="invalid_type")
    assert error.body() == {
        "error": {
            "message": "No.",
            "type": "invalid_request_error",
            "param": "input.0",
            "code": "invalid_type",
        }
    }


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (InvalidRequest, 400, "invalid_value"),
        (AuthenticationFailed, 401, "invalid_api_key"),
        (Forbidden, 403, "origin_not_allowed"),
        (NotFound, 404, "not_found"),
        (BodyTooLarge, 413, "request_too_large"),
        (RateLimited, 429, "rate_limit_exceeded"),
        (ServerFailed, 500, "server_error"),
        (Unavailable, 503, "server_unavailable"),
    ],
)
def test_each_error_has_its_status_and_code(
    kind: type[APIError], status: int, code: str | None
) -> None:
    error = kind("No.")
    assert (error.status, error.code, str(error)) == (status, code, "No.")


def test_an_explicit_code_replaces_the_default() -> None:
    assert NotFound("No.", code="model_not_found").code == "model_not_found"


def test_a_missing_key_is_answered_with_the_challenge() -> None:
    assert AuthenticationFailed("No.").headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize(("seconds", "header"), [(0, "1"), (1, "1"), (1.2, "2"), (30, "30")])
def test_retry_after_is_rounded_up_and_positive(seconds: float, header: str) -> None:
    assert RateLimited("No.", retry_after=seconds).headers == {"Retry-After": header}


def test_other_errors_add_no_headers() -> None:
    assert ServerFailed("No.").headers == {}


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Unsupported("seed", "x"), InvalidRequest, "unsupported_parameter"),
        (Overloaded("full", 3), RateLimited, "rate_limit_exceeded"),
        (BackendFailed("out of memory"), ServerFailed, "server_error"),
        (EngineDied("the thread ended"), EngineDown, "engine_unavailable"),
        (InvalidGrammar("no such rule"), InvalidRequest, "invalid_grammar"),
    ],
)
def test_other_errors_of_backends_have_their_own_message(
    error: BackendError, kind: type[APIError], code: str
) -> None:
    converted = from_backend(error)
    assert type(converted) is kind
    assert (converted.message, converted.code) == (str(error), code)


@pytest.mark.parametrize(
    "words",
    [
        "Input tokens exceed the configured limit",  # LiteLLM, langchain-openai
        "exceeds the context window",  # @langchain/openai, langchain-openai in a stream, opencode
        "maximum context length",  # CrewAI, Strands
    ],
)
def test_clients_recognise_a_prompt_that_is_too_long_by_its_message(words: str) -> None:
    error = from_backend(ContextTooLong(9, 8), prompt_param="input")
    assert type(error) is ContextLengthExceeded
    assert (error.status, error.code, error.param) == (400, "context_length_exceeded", "input")
    assert words in error.message
    assert str(ContextTooLong(9, 8)) in error.message


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Rejected("http://inner says: secret"), InvalidRequest, "engine_refused"),
        (EngineFault("http://inner says: secret"), ServerFailed, "server_error"),
        (error_of_status(400, "inner: bad grammar", MASKED), InvalidRequest, "invalid_grammar"),
        (error_of_status(400, "inner: bad seed", MASKED), InvalidRequest, "engine_refused"),
    ],
)
def test_a_foreign_engines_own_words_are_not_for_clients(
    error: BackendError, kind: type[APIError], code: str
) -> None:
    converted = from_backend(error)
    assert (type(converted), converted.code) == (kind, code)
    assert "inner" not in converted.message


@pytest.mark.parametrize("error", [EngineFault("http://inner"), Unreached("http://inner")])
def test_an_engine_that_is_down_is_named_to_nobody(error: EngineFault) -> None:
    down = engine_down(error)
    assert "inner" not in down.message
    assert (down.status, down.headers) == (503, {"Retry-After": "5"})


@pytest.mark.parametrize("error", [Unreached("http://inner"), EngineDied("dead")])
def test_an_engine_that_had_sampled_has_failed(error: BackendFailed) -> None:
    assert type(from_backend(error)) is EngineDown
    assert type(from_backend(error, has_sampled=True)) is ServerFailed


def test_an_engine_cannot_refuse_what_it_has_begun_to_sample() -> None:
    assert type(from_backend(Rejected("no"))) is InvalidRequest
    assert type(from_backend(Rejected("no"), has_sampled=True)) is ServerFailed


def test_an_engine_that_gives_the_place_of_an_answer_to_another_has_failed() -> None:
    assert type(from_backend(Overloaded("full"))) is RateLimited
    assert type(from_backend(Overloaded("full"), has_sampled=True)) is ServerFailed


def test_an_engine_that_is_not_ready_has_a_retry_after() -> None:
    converted = from_backend(NotReady("it starts", 2.5))
    assert (type(converted), converted.headers) == (EngineDown, {"Retry-After": "3"})


def test_a_dead_end_is_the_clients_where_the_client_wrote_the_grammar() -> None:
    converted = from_backend(DeadEnd(), own_grammar=True)
    assert (type(converted), converted.code) == (InvalidRequest, "invalid_grammar")
    assert "allows no token" in converted.message
    assert type(from_backend(DeadEnd())) is ServerFailed


def test_a_full_engine_has_a_retry_after() -> None:
    assert from_backend(Overloaded("full", 3)).headers == {"Retry-After": "3"}


def test_what_was_sent_is_repeated_in_part_at_most() -> None:
    error = InvalidRequest("x" * 30_000_000, param="é" * 30_000_000)
    assert error.message == str(error) == "x" * (MAX_MESSAGE - 1) + "…"
    assert error.param == "é" * (MAX_PARAM - 1) + "…"
    whole = InvalidRequest("x" * MAX_MESSAGE, param="y" * MAX_PARAM)
    assert (whole.message, whole.param) == ("x" * MAX_MESSAGE, "y" * MAX_PARAM)
