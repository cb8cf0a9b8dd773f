"""Decodes the text of a page: by its byte order mark, header or meta element, else by detection."""

import codecs
import re

from charset_normalizer import from_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without `<`, and with one place for each space: the time would grow with the cube of the length.
_META = re.compile(rb"<meta[^<>]+charset\s*=\s*(?:[\"']\s*)?([\w\-:.]+)", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]+encoding\s*=\s*[\"']([\w\-:.]+)", re.IGNORECASE)
_HEAD = 4096
_SAMPLE = 16384
# As browsers read these names. Source: https://encoding.spec.whatwg.org/#names-and-labels
_LABELS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_UNKNOWN = {"x-sjis": "cp932", "x-gbk": "gb18030", "x-euc-jp": "euc_jp", "windows-949": "cp949"}
"""Names that Python does not know."""
_NO_CHARSETS = frozenset(
    {"utf-7", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"}
)
"""Text encodings of Python that no page has, by the names that `codecs.lookup` gives them."""


def decode(body: bytes, declared: str | None) -> str:
    """The text. declared: the charset of the header. Bytes without a meaning become U+FFFD."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    codec = _named(body, declared)
    return _detected(body) if codec is None else body.decode(codec, "replace")


def is_slow(body: bytes, declared: str | None) -> bool:
    """Whether `decode` takes long for its size: to detect a charset may take 0.1 s."""
    if body.startswith(tuple(mark for mark, _ in _MARKS)) or _named(body, declared) is not None:
        return False
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start <= _SAMPLE
    return False


def _named(body: bytes, declared: str | None) -> str | None:
    """The codec that the header or the page names, None if neither names a known one."""
    head = body[:_HEAD]
    named = [declared] if declared else []
    named += [match[1].decode() for match in (_XML.search(head), _META.search(head)) if match]
    return next((codec for name in named if (codec := _codec(name)) is not None), None)


def _codec(label: str) -> str | None:
    """The codec for a charset of the web; None for an unknown one, and for other codecs."""
    label = label.strip("\"' ").lower()
    try:
        info = codecs.lookup(_UNKNOWN.get(label, label))
    except (LookupError, ValueError):
        return None
    if not info._is_text_encoding or info.name in _NO_CHARSETS:
        return None
    return _LABELS.get(info.name, info.name)


def _detected(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > _SAMPLE:
            return body.decode("utf-8", "replace")
    # A sample, because the time grows with the text.
    best = from_bytes(body[:_SAMPLE]).best()
    return body.decode(best.encoding if best is not None else "cp1252", "replace")
