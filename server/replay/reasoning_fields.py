"""The reasoning of a chat message, which clients send back in up to four fields.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.replay.joining import join_texts
from server.replay.sealed_items import Unseal
from server.schemas.chat import ALIAS, SEAL_DETAIL, SEAL_FORMAT, SUMMARY_DETAIL, TEXT_DETAIL
from server.schemas.fields import array, mapping, optional_string, required, string

_UNKNOWN = re.compile("(unknown)+")


def reasoning_of(
    message: dict[str, Any], where: str, unseal: Unseal, *, is_secret: bool = False
) -> list[Message]:
    """The reasoning messages of an assistant's message: none, one, or one for each seal.

    Sealed messages are used, with their token ids, unless the text beside them differs: then the
    client changed it, and the text is used. unseal: decrypts a seal. is_secret: whether clients get
    no raw reasoning. A text is a summary then, or a guess, and is not used: how much of the prompt
    was cached would tell how far a guess is right. Summaries are never used. Raises InvalidRequest
    naming the field.
    """
    value = message.get("reasoning_details")
    listed = [] if value is None else array(value, f"{where}.reasoning_details")
    params = (f"{where}.reasoning_details.{index}" for index in range(len(listed)))
    read = [(param, mapping(item, param)) for param, item in zip(params, listed, strict=True)]
    details = [(param, detail) for param, detail in read if _may_be_ours(detail)]
    if read and not details:
        return []
    sealed = [unseal(data, param) for data, param in _seals(details).items()]
    types = {detail.get("type") for _, detail in read if isinstance(detail.get("type"), str)}
    is_summary = SUMMARY_DETAIL in types and TEXT_DETAIL not in types
    text = _text(message, where, details, text_is_summary=is_summary)
    if is_secret:
        return sealed
    if sealed and text in ("", join_texts(str(each.content) for each in sealed)):
        return sealed
    return [Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS)] if text else []


def _may_be_ours(detail: dict[str, Any]) -> bool:
    """Whether a detail has a format of this server. Others are the reasoning of another model.

    Clients that join the deltas of a stream, as OpenAI's SDK does, join the formats too.
    """
    value = detail.get("format")
    is_unknown = isinstance(value, str) and _UNKNOWN.fullmatch(value) is not None
    return is_unknown or value in (None, SEAL_FORMAT)


def _seals(details: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """The path of the field of each seal. Those without a format are from other servers."""
    return {
        required(detail, "data", param, string): f"{param}.data"
        for param, detail in details
        if detail.get("type") == SEAL_DETAIL and detail.get("format") == SEAL_FORMAT
    }


def _text(
    message: dict[str, Any],
    where: str,
    details: Sequence[tuple[str, dict[str, Any]]],
    *,
    text_is_summary: bool,
) -> str:
    """The raw reasoning: the text of the first field that has any."""
    for field in ("reasoning", ALIAS):
        text = optional_string(message.get(field), f"{where}.{field}")
        if text and not text_is_summary:
            return text
    return "".join(
        optional_string(detail.get("text"), f"{param}.text") or ""
        for param, detail in details
        if detail.get("type") == TEXT_DETAIL
    )
