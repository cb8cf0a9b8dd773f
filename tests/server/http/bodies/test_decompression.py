import gzip
from random import Random

import pytest
import zstandard
from zstandard import ZstdCompressionParameters, ZstdCompressor

from server.errors import APIError, UnsupportedEncoding
from server.http.bodies.decompression import (
    FREE_BYTES,
    MAX_MEMBERS,
    MAX_RATIO,
    ZSTD_WINDOW,
    Decoder,
    check,
)


def everything(body: bytes, encoding: str, limit: int = 100 * FREE_BYTES) -> bytes:
    decoder = Decoder(body, encoding, limit)
    return b"".join(iter(lambda: decoder.read(FREE_BYTES // 4), b""))


def encoded(text: bytes, encoding: str) -> bytes:
    return gzip.compress(text) if encoding == "gzip" else zstandard.compress(text)


def test_a_body_is_decoded_a_slice_at_a_time() -> None:
    decoder = Decoder(gzip.compress(b"abcde"), "gzip", 5)
    assert [decoder.read(3), decoder.read(3), decoder.read(3)] == [b"abc", b"de", b""]


def test_what_is_over_the_limit_is_refused_at_its_slice() -> None:
    decoder = Decoder(gzip.compress(b"abcde"), "gzip", 4)
    assert decoder.read(3) == b"abc"
    with pytest.raises(APIError) as caught:
        decoder.read(3)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_may_have_several_parts_that_were_compressed_alone(encoding: str) -> None:
    body = b"".join(encoded(part, encoding) for part in (b"abc", b"", b"de"))
    assert everything(body, encoding) == b"abcde"


def test_a_slice_is_full_where_the_parts_are_small() -> None:
    decoder = Decoder(b"".join(map(gzip.compress, (b"abc", b"", b"def"))), "gzip", 6)
    assert [decoder.read(5), decoder.read(5), decoder.read(5)] == [b"abcde", b"f", b""]


def test_gzip_bodies_have_a_limited_number_of_parts() -> None:
    """A thread would take many seconds for the million empty ones that fit into a body."""
    body = gzip.compress(b"") * (MAX_MEMBERS - 1) + gzip.compress(b"a")
    assert everything(body, "gzip") == b"a"
    with pytest.raises(APIError) as caught:
        everything(body + gzip.compress(b""), "gzip")
    assert (caught.value.status, caught.value.code) == (400, "invalid_encoding")


def test_zeros_behind_parts_of_a_gzip_body_are_padding() -> None:
    body = gzip.compress(b"abc") + bytes(40_000) + gzip.compress(b"de") + b"\0"
    assert everything(body, "gzip") == b"abcde"
    with pytest.raises(APIError):
        everything(b"\0" + body, "gzip")


def test_the_header_of_a_gzip_body_may_have_a_name() -> None:
    head, rest = gzip.compress(b"abc")[:10], gzip.compress(b"abc")[10:]
    named = head[:3] + b"\x08" + head[4:] + b"n" * 40_000 + b"\0" + rest
    assert everything(named, "gzip") == b"abc"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("text", [b"abcde", bytes(300_000), Random(1).randbytes(300_000)])
def test_a_body_that_is_cut_off_is_refused(encoding: str, text: bytes) -> None:
    whole = encoded(b"whole", encoding)
    body = encoded(text, encoding)
    for size in {1, len(body) // 3, len(body) // 2, len(body) - 5, len(body) - 1}:
        for before in (b"", whole):
            with pytest.raises(APIError) as caught:
                everything(before + body[:size], encoding)
            assert (caught.value.status, caught.value.code) == (400, "invalid_encoding")


def test_what_zstd_skips_is_no_text() -> None:
    skippable = b"\x53\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"???"
    body = zstandard.compress(b"abc") + skippable + zstandard.compress(b"de") + skippable
    assert everything(body, "zstd") == b"abcde"


def test_a_zstd_window_of_more_than_8_mb_is_refused() -> None:
    text = b"a" * (ZSTD_WINDOW + 1)

    def compressed(window_log: int) -> bytes:
        parameters = ZstdCompressionParameters(window_log=window_log, write_content_size=False)
        stream = ZstdCompressor(compression_params=parameters).compressobj()
        return stream.compress(text) + stream.flush()

    with pytest.raises(APIError) as caught:
        everything(compressed(24), "zstd")
    assert (caught.value.status, caught.value.code) == (400, "invalid_encoding")
    # One that is allowed is refused as a bomb only, after many bytes were decoded.
    with pytest.raises(APIError) as caught:
        everything(compressed(23), "zstd")
    assert caught.value.code == "compression_ratio_too_high"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_repetitive_request_passes(encoding: str) -> None:
    """An agent's history that repeats a file, as long as a context holds, and far longer."""
    file = b"".join(b"def function_%d(): return %d\n" % (i, i * i) for i in range(700))
    turns = b"".join(b'{"role":"tool","content":"%d %s"},' % (i, file) for i in range(150))
    assert 3_000_000 < len(turns) < FREE_BYTES
    assert everything(encoded(turns, encoding), encoding) == turns


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_long_body_passes_up_to_the_ratio(encoding: str) -> None:
    text = b"".join(
        b"2026-01-01 INFO request %d took %d ms\n" % (i, i % 97) for i in range(200_000)
    )
    body = encoded(text, encoding)
    assert len(text) > FREE_BYTES
    assert len(text) < MAX_RATIO * len(body)
    assert everything(body, encoding) == text


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused(encoding: str) -> None:
    with pytest.raises(APIError) as caught:
        everything(encoded(b"a" * 2 * FREE_BYTES, encoding), encoding)
    assert (caught.value.status, caught.value.code) == (413, "compression_ratio_too_high")


def test_only_known_encodings_are_decoded() -> None:
    check("gzip")
    with pytest.raises(UnsupportedEncoding):
        check("br")
    with pytest.raises(UnsupportedEncoding):
        Decoder(b"", "br", 1)
