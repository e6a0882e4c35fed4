"""One server is one spelling of its address, and an address is all that it is."""

import pytest

from headrace.errors import ConfigurationError
from headrace.quota import QuotaConfig
from headrace.wire.transport import check_base_url, quota_name


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("HTTPS://API.Example.COM:443/v1//", "https://api.example.com/v1"),
        ("http://host:80/", "http://host"),
        ("http://host:8080", "http://host:8080"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://[2001:DB8::1]:8080/x", "http://[2001:db8::1]:8080/x"),
        ("http://exämple.test", "http://xn--exmple-cua.test"),
        ("http://_service.test", "http://_service.test"),
    ],
)
def test_every_spelling_of_a_server_is_one(text, url):
    assert check_base_url(text) == url
    assert check_base_url(url) == url


def test_two_spellings_share_one_quota():
    spellings = "https://API.example.com", "https://api.example.com:443/", "https://api.example.com"
    (name,) = {quota_name(text) for text in spellings}
    assert QuotaConfig(name=name, rates="10/s").name == "api.example.com"


@pytest.mark.parametrize(
    "text",
    [
        "", "host", "host:80", "ftp://host", "http://", "http:///x", "http://a..b", "http://[::1",
        "http://h:x", "http://h:0", "http://h:99999", "http://h/?", "http://h/#", "http://h?q=1",
        "http://h/a b", "http://h/ü", "http://h%2fx", "http://h\\x", "http://[fe80::1%25lo]",
        "http://" + "a." * 70 + "test", "http://\udcff", " http://h",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anything_is_sent(text):
    with pytest.raises(ConfigurationError, match="base_url"):
        check_base_url(text)


@pytest.mark.parametrize("scheme", ["http", "ftp", "htp:/"])
def test_a_password_is_refused_and_not_repeated(scheme):
    with pytest.raises(ConfigurationError) as refused:
        check_base_url(f"{scheme}://user:hunter2@host")
    assert "hunter2" not in str(refused.value)
