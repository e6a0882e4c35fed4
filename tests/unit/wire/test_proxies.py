"""Which proxy the environment names for a server."""

from __future__ import annotations

import os

import httpx
import pytest

from headrace.errors import ConfigurationError
from headrace.logs import safe_text
from headrace.wire import Origin, check_proxies, keep_loopback_direct, proxy_for


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "REQUEST_METHOD":
            monkeypatch.delenv(name)


def proxy_of(url: str) -> str | None:
    proxy = proxy_for(Origin.of(url))
    return proxy and f"{proxy.origin.host}:{proxy.origin.port}"


@pytest.mark.parametrize(
    ("variable", "http", "https"),
    [
        ("HTTP_PROXY", True, False),
        ("http_proxy", True, False),
        ("HTTPS_PROXY", False, True),
        ("https_proxy", False, True),
        ("ALL_PROXY", True, True),
        ("all_proxy", True, True),
    ],
)
def test_a_proxy_is_named_for_the_scheme_of_the_server(
    monkeypatch: pytest.MonkeyPatch, variable: str, http: bool, https: bool
) -> None:
    monkeypatch.setenv(variable, "http://proxy.test:3128")

    assert proxy_of("http://api.test") == ("proxy.test:3128" if http else None)
    assert proxy_of("https://api.test") == ("proxy.test:3128" if https else None)


def test_small_letters_go_first_and_nothing_is_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://large.test:1")
    monkeypatch.setenv("https_proxy", "http://small.test:2")
    assert proxy_of("https://api.test") == "small.test:2"

    monkeypatch.setenv("https_proxy", "")
    assert proxy_of("https://api.test") is None


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("api.test", "https://api.test"),
        ("API.test", "https://api.TEST"),
        ("test", "https://api.test"),
        (".test", "https://api.test"),
        ("other.test, api.test", "https://api.test"),
        ("api.test:8443", "https://api.test:8443"),
        ("10.1.2.3", "https://10.1.2.3"),
        ("10.0.0.0/8", "https://10.1.2.3"),
        ("fd00::/8", "https://[fd00::1]"),
        ("fd00::1", "https://[fd00::1]"),
        ("[fd00::1]", "https://[fd00::1]"),
        ("*", "https://api.test"),
    ],
)
def test_no_proxy_names_who_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch, name: str, entry: str, url: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    assert proxy_of(url) == "proxy.test:3128"

    monkeypatch.setenv(name, entry)
    assert proxy_of(url) is None


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("pi.test", "https://api.test"),
        ("api.test:8443", "https://api.test"),
        ("11.0.0.0/8", "https://10.1.2.3"),
        ("10.0.0.0/8", "https://api.test"),
        ("", "https://api.test"),
    ],
)
def test_no_proxy_names_no_others(monkeypatch: pytest.MonkeyPatch, entry: str, url: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", entry)

    assert proxy_of(url) == "proxy.test:3128"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_reached_directly(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")

    assert proxy_of(f"http://{host}:4200") is None
    assert proxy_of("http://127.9.9.9") == "proxy.test:3128"


def test_credentials_are_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://us%40er:pass%3Aword7@proxy.test:3128")

    proxy = proxy_for(Origin.of("https://api.test"))

    assert proxy is not None
    assert proxy.authorization == "Basic dXNAZXI6cGFzczp3b3JkNw=="
    for shown in (str(proxy), repr(proxy), safe_text("a pass:word7 in a line")):
        assert "word7" not in shown
        assert "dXNAZXI6" not in shown


@pytest.mark.parametrize(
    "url",
    ["socks5://u:secret99@proxy.test:1080", "https://u:secret99@proxy.test", "http://u:secret99@"],
)
def test_a_proxy_that_cannot_be_used_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)

    with pytest.raises(ConfigurationError, match="HTTPS_PROXY") as refused:
        proxy_for(Origin.of("https://api.test"))
    assert "secret99" not in str(refused.value)


def test_a_proxy_without_a_scheme_is_spoken_to_by_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")

    assert proxy_of("https://api.test") == "proxy.test:3128"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({"HTTP_PROXY": "x"}, {"NO_PROXY": "localhost,127.0.0.1,::1"}),
        (
            {"https_proxy": "x", "no_proxy": "intranet.test, 127.0.0.1"},
            {
                "no_proxy": "intranet.test,127.0.0.1,localhost,::1",
                "NO_PROXY": "localhost,127.0.0.1,::1",
            },
        ),
        ({"ALL_PROXY": "x", "NO_PROXY": "*"}, {"NO_PROXY": "*"}),
    ],
)
def test_other_clients_reach_this_machine_directly_too(
    before: dict[str, str], after: dict[str, str]
) -> None:
    environ = dict(before)

    keep_loopback_direct(environ)

    assert environ == before | after


@pytest.mark.parametrize(
    ("variable", "url", "what"),
    [
        ("HTTPS_PROXY", "http://me:word@proxy:99999", "is no URL with a host"),
        ("http_proxy", "http://[::1", "is no URL with a host"),
        ("ALL_PROXY", "http://:3128", "is no URL with a host"),
        ("HTTPS_PROXY", "gopher://me:word@proxy:80", "spoken to by gopher"),
    ],
)
def test_a_proxy_that_no_client_can_use_is_named_by_its_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str, what: str
) -> None:
    monkeypatch.setenv(variable, url)
    with pytest.raises(ConfigurationError, match=what) as refused:
        check_proxies()
    assert refused.value.hint.startswith(f"Set {variable.upper()} to http://")
    assert "word" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize("url", ["proxy:3128", "https://me:word@proxy", "socks5h://proxy:1080"])
def test_a_proxy_that_a_client_can_use_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", url)
    check_proxies()


def test_prefects_client_takes_the_variables_of_a_socks_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    httpx.Client().close()  # it cannot be made without the package for SOCKS
