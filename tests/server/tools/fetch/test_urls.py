"""URLs that may be fetched, and what operators allow, as text."""

from ipaddress import ip_network

import pytest

from server.tools.fetch.addresses import AddressPolicy
from server.tools.fetch.errors import BlockedTarget
from server.tools.fetch.urls import (
    MOST_URL_CHARACTERS,
    AllowedDomain,
    FetchPolicy,
    hostname,
    is_within,
    parse_domains,
)


def test_domains_may_name_a_port() -> None:
    texts = ["Corp.Example", ".wiki.example:1", "a.example:65535", "Bücher.example"]
    assert parse_domains(texts) == (
        AllowedDomain("corp.example"),
        AllowedDomain("wiki.example", 1),
        AllowedDomain("a.example", 65535),
        AllowedDomain("xn--bcher-kva.example"),
    )


@pytest.mark.parametrize("text", ["", ":80", "a:", "a:x", "a:0", "a:65536", ".", "ü" * 64])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a domain|no host name"):
        parse_domains([text])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://A.example:8080/b", "a.example"),
        ("http://a。b．example/", "a.b.example"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://straße.example/", "xn--strae-oqa.example"),
        ("http://ａ.example/", None),
        ("http://[x", None),
        ("https:///x", ""),
        ("file-search://bücher/x", "bücher"),
    ],
)
def test_the_host_of_a_url_is_the_one_that_is_resolved(url: str, host: str | None) -> None:
    assert hostname(url) == host


@pytest.mark.parametrize(
    ("host", "within"),
    [("a.example", True), ("B.A.example.", True), ("ba.example", False), ("example", False)],
)
def test_subdomains_are_within_a_domain(host: str, within: bool) -> None:
    assert is_within(host, "a.Example") is within


@pytest.mark.parametrize(
    ("host", "port", "covered"),
    [
        ("wiki.example", 8080, True),
        ("a.wiki.example", 8080, True),
        ("wiki.example", 80, True),
        ("wiki.example", 443, True),
        ("wiki.example", 8081, False),
        ("example", 8080, False),
    ],
)
def test_a_domain_covers_its_port_and_the_usual_ones(host: str, port: int, covered: bool) -> None:
    assert AllowedDomain("wiki.example", 8080).covers(host, port) is covered


def test_a_domain_without_a_port_covers_the_usual_ones_only() -> None:
    domain = AllowedDomain("wiki.example")
    assert [domain.covers("wiki.example", port) for port in (80, 443, 8080)] == [True, True, False]


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("https://a.example/b?c#d", "https://a.example/b?c"),
        (" http://a.example ", "http://a.example"),
        ("http://a.example:443/", "http://a.example:443/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://localhost.example/", "http://localhost.example/"),
        ("http://internal.example/", "http://internal.example/"),
    ],
)
def test_public_urls_pass_without_their_fragment(url: str, checked: str) -> None:
    assert str(FetchPolicy().check(url)) == checked


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("ftp://a.example/", "only http and https"),
        ("//a.example/", "only http and https"),
        ("http://user@a.example/", "a user name or a password"),
        ("http://:password@a.example/", "a user name or a password"),
        ("http://a.example:22/", "port 22 is not allowed"),
        ("https://a.example:8080/", "port 8080 is not allowed"),
        ("http://localhost/", "not public"),
        ("http://LOCALHOST./", "not public"),
        ("http://a.localhost/", "not public"),
        ("http://printer.local/", "not public"),
        ("http://metadata.google.internal/", "not public"),
        ("http://host.localdomain/", "not public"),
        ("http://router.home.arpa/", "not public"),
        ("http://1.0.0.127.in-addr.arpa/", "not public"),
        ("http://127.0.0.1/", "not public"),
        ("http://127.0.0.1./", "not public"),
        ("http://0x7f.1/", "not public"),
        ("http://1.2.3.4.5/", "not valid"),
        ("http://[::1]/", "not public"),
        ("http://169.254.169.254/", "not public"),
        ("http://a.example\\@b.example/", "not valid"),
        ("http://a.example/b\\c", "not valid"),
        ("http:///path", "not valid"),
        ("http://./", "not valid"),
        ("http://a.example:port/", "not valid"),
        ("", "only http and https"),
    ],
)
def test_other_urls_are_refused_before_anything_is_resolved(url: str, reason: str) -> None:
    with pytest.raises(BlockedTarget, match=reason):
        FetchPolicy().check(url)


def test_a_url_has_a_limited_length() -> None:
    url = "http://a.example/".ljust(MOST_URL_CHARACTERS, "a")
    assert str(FetchPolicy().check(url)) == url
    with pytest.raises(BlockedTarget, match="too long"):
        FetchPolicy().check(url + "a")


def test_a_domain_that_is_allowed_may_be_local_and_has_its_port() -> None:
    policy = FetchPolicy(domains=parse_domains(["wiki.internal:8080"]))
    assert str(policy.check("http://wiki.internal:8080/")) == "http://wiki.internal:8080/"
    for url in ("http://wiki.internal:8081/", "http://other.internal:8080/", "http://internal/"):
        with pytest.raises(BlockedTarget):
            policy.check(url)


def test_where_a_network_is_allowed_the_address_of_a_local_name_decides() -> None:
    policy = FetchPolicy(AddressPolicy((ip_network("10.1.0.0/16"),)))
    for url in ("http://wiki.internal/", "http://10.1.2.3/"):
        assert str(policy.check(url)) == url
    with pytest.raises(BlockedTarget, match="not public"):
        policy.check("http://10.2.0.1/")
