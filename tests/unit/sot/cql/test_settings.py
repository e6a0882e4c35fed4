"""Locations of a CQL store: what they mean, and what is refused without repeating a secret."""

import pytest

from headrace.sot.cql.session import PASSWORD_VARIABLE, USERNAME_VARIABLE, parse_location
from headrace.sot.cql.tables import BadPayload, Payload, compress, decompress
from headrace.sot.exceptions import StoreMisconfigured


def test_a_location_says_where_and_how():
    found = parse_location("cql://a,10.0.0.2:9043/sot?replication=3&consistency=local_quorum&tls=1")
    assert (found.hosts, found.port, found.keyspace) == (("a", "10.0.0.2"), 9043, "sot")
    assert (found.replication, found.consistency, found.tls) == (3, "local_quorum", True)
    assert found.location == "cql://a,10.0.0.2:9043/sot"


def test_defaults_are_safe():
    found = parse_location("cql://a/sot")
    assert (found.port, found.consistency, found.serial_consistency) == (9042, "quorum", "serial")


def test_secrets_come_from_the_environment(monkeypatch):
    monkeypatch.setenv(USERNAME_VARIABLE, "me")
    monkeypatch.setenv(PASSWORD_VARIABLE, "hush")
    found = parse_location("cql://a/sot")
    assert found.username == "me"
    assert found.password is not None
    assert found.password.get_secret_value() == "hush"
    assert "hush" not in repr(found) + found.location


@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("cql://me:hush@a/sot", "it is not cql://"),
        ("cql:///sot", "hosts"),
        ("cql://a", "keyspace"),
        ("cql://a/Sot", "keyspace"),
        ("cql://a/s;drop", "keyspace"),
        ("cql://a b/sot", "host"),
        ("cql://a:99999/sot", "port"),
        ("cql://a/sot?consistency=any", "consistency"),
        ("cql://a/sot?protocol_version=9", "protocol_version"),
        ("cql://a/sot?bucket_bytes=1", "bucket_bytes"),
        ("cql://a/sot?colour=red", "no option colour"),
        ("cql://a/sot?password=hush", "no option password"),
        ("cql://a/sot?keyspace=other", "no option keyspace"),
        ("cql://a/sot?tls=1&tls=0", "twice"),
    ],
)
def test_what_cannot_work_is_named(location, word):
    with pytest.raises(StoreMisconfigured, match=word) as caught:
        parse_location(location)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("frames", [b"", b"x", b"frame " * 5000, bytes(range(256)) * 3])
def test_a_payload_comes_back(frames):
    assert decompress(compress(frames)) == frames


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"stored": b"other"}, "check"),
        ({"checksum": 1}, "check"),
        ({"raw_bytes": 5}, "decompress|bytes"),
        ({"raw_bytes": 2**40}, "claims"),
        ({"raw_bytes": -1}, "claims"),
        ({"codec": 7}, "codec"),
        ({"codec": 0}, "bytes"),
    ],
)
def test_a_payload_that_was_changed_is_not_believed(change, word):
    good = compress(b"frame " * 500)
    fields = {name: getattr(good, name) for name in ("codec", "raw_bytes", "checksum", "stored")}
    with pytest.raises(BadPayload, match=word):
        decompress(Payload(**(fields | change)))
