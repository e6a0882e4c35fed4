"""Keys: made, rotated, missing, readable by others; what they sign, and what a list proves."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from headrace.evidence.exceptions import BadStatement, KeyExists, KeyMissing, KeyUnusable
from headrace.evidence.key_files import KeyFile
from headrace.evidence.keys import (
    KeyList,
    PublicKey,
    SigningKey,
    make_key,
    read_key_list,
    rotate_key,
    signing_key,
)
from headrace.evidence.statements import read_envelope

NOW = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
PAYLOAD = {"type": "test", "seq": "18446744073709551615"}


@pytest.fixture
def place(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys" / "ours.pem")


def pem_of(private: Any, password: bytes | None = None) -> bytes:
    locked = serialization.BestAvailableEncryption(password) if password else None
    pem: bytes = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        locked or serialization.NoEncryption(),
    )
    return pem


def test_the_vector_of_the_document() -> None:
    """RFC 8032, 7.1, test 1: secret and public key; the id and the signature are ours to keep."""
    private = ed25519.Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    key = SigningKey.from_pem(pem_of(private), where="here")
    assert key.public_key.hex() == (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )
    assert key.key_id == "21fe31dfa154a261626bf854046fd227"
    assert key.sign(PAYLOAD) == read_envelope(key.sign(PAYLOAD).as_line(), where="here")
    private.public_key().verify(
        key.sign(PAYLOAD).signature, b'{"seq":"18446744073709551615","type":"test"}'
    )


def test_a_key_is_made_once_for_its_owner_alone(place: KeyFile) -> None:
    with pytest.raises(KeyMissing, match="key make"):
        signing_key(place)
    made = make_key(place, now=NOW)
    assert made.made_at == "2026-01-31T23:59:59Z"
    assert place.path.stat().st_mode & 0o777 == 0o600
    assert place.path.parent.stat().st_mode & 0o777 == 0o700
    assert signing_key(place).key_id == made.key_id
    before = place.path.read_bytes()
    with pytest.raises(KeyExists, match=f"{made.key_id}.*rotate"):
        make_key(place, now=NOW)
    assert place.path.read_bytes() == before


def test_what_an_old_key_signed_stays_valid_and_its_secret_is_gone(place: KeyFile) -> None:
    first = make_key(place, now=NOW)
    secret = place.path.read_bytes()
    statement = signing_key(place).sign(PAYLOAD)
    rotated = [rotate_key(place, now=NOW) for _ in range(3)]
    assert signing_key(place).key_id == rotated[-1].key_id
    listed = place.public()
    listed.check(statement, where="here")
    assert [key.key_id for key in listed.keys] == [first.key_id, *(k.key_id for k in rotated)]
    assert len(listed.trusted(first.key_id).keys) == 4
    assert len(listed.trusted(rotated[1].key_id).keys) == 2
    body = b"".join(secret.splitlines()[1:-1])
    assert all(body not in path.read_bytes() for path in place.path.parent.iterdir())


def test_a_key_that_was_only_put_into_the_list_is_not_trusted(place: KeyFile) -> None:
    first = make_key(place, now=NOW)
    stranger = SigningKey.make()
    forged = PublicKey(stranger.public_key, "2026-01-31T23:59:59Z")
    for endorser in (None, stranger):
        endorsed = (
            endorser.sign(
                {"type": "headrace.key.v1", **{k: v for k, v in forged.as_dict().items() if v}}
            )
            if endorser
            else None
        )
        listed = place.public().with_key(replace(forged, endorsed=endorsed))
        listed = read_key_list(json.dumps(listed.as_dict()), where="here")
        assert [key.key_id for key in listed.trusted(first.key_id).keys] == [first.key_id]
        assert not listed.trusted("0" * 32).keys


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o700, 0o660])
def test_a_key_that_others_may_use_is_refused(place: KeyFile, mode: int) -> None:
    make_key(place, now=NOW)
    place.path.chmod(mode)
    with pytest.raises(KeyUnusable, match=f"{mode:04o}.*chmod 600"):
        signing_key(place)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "no private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "PEM"),
        (pem_of(ec.generate_private_key(ec.SECP256R1())), "no Ed25519 key"),
        (pem_of(ed25519.Ed25519PrivateKey.generate(), b"x"), "password"),
    ],
)
def test_what_is_no_key_is_named_without_its_content(
    place: KeyFile, content: bytes, named: str
) -> None:
    place.path.parent.mkdir()
    place.path.write_bytes(content)
    place.path.chmod(0o600)
    with pytest.raises(KeyUnusable, match=named) as caught:
        signing_key(place)
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_file_is_no_key(place: KeyFile, kind: str) -> None:
    place.path.parent.mkdir()
    os.mkfifo(place.path, 0o600) if kind == "fifo" else place.path.mkdir()
    with pytest.raises(KeyUnusable):
        signing_key(place)


def test_a_key_that_is_not_in_its_list_does_not_sign(place: KeyFile) -> None:
    make_key(place, now=NOW)
    place.public_path.unlink()
    with pytest.raises(KeyUnusable, match="not in its list"):
        signing_key(place)
    with pytest.raises(KeyUnusable, match="not in its list"):
        rotate_key(place, now=NOW)


def test_a_kill_in_the_middle_of_a_rotation_leaves_the_old_key_in_force(
    place: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_key(place, now=NOW)

    def killed(*_: object, **__: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SigningKey, "to_pem", killed)
        with pytest.raises(KeyboardInterrupt):
            rotate_key(place, now=NOW)
    assert signing_key(place).key_id == first.key_id
    last = rotate_key(place, now=NOW)
    assert signing_key(place).key_id == last.key_id
    assert len(place.public().trusted(first.key_id).keys) == 3


def changed(field: str, value: object) -> KeyList:
    keys = [dict(key) for key in LISTED["keys"]]
    keys[1][field] = value
    return read_key_list(json.dumps({"version": 1, "keys": keys}), where="here.json")


def _listed() -> dict[str, Any]:
    old, new = SigningKey.make(), SigningKey.make()
    second = PublicKey(new.public_key, "2026-01-31T23:59:59Z")
    fields = {"type": "headrace.key.v1", **second.as_dict()}
    del fields["endorsed"]
    second = replace(second, endorsed=old.sign(fields))
    return KeyList([PublicKey(old.public_key, "2026-01-30T00:00:00Z"), second]).as_dict()


LISTED = _listed()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key_id", "0" * 32),
        ("public_key", base64.b64encode(bytes(32)).decode()),
        ("public_key", "?"),
        ("made_at", "2026-01-31T00:00:00Z"),
        ("endorsed", {"payload": {}}),
        (
            "endorsed",
            {**LISTED["keys"][1]["endorsed"], "signature": base64.b64encode(bytes(64)).decode()},
        ),
    ],
)
def test_a_list_that_was_changed_is_refused(field: str, value: object) -> None:
    assert len(read_key_list(json.dumps(LISTED), where="here").keys) == 2
    with pytest.raises(KeyUnusable, match=r"here\.json"):
        changed(field, value)


def test_a_later_list_is_left_to_a_later_version() -> None:
    with pytest.raises(KeyUnusable, match="Upgrade"):
        read_key_list('{"version": 2, "keys": []}', where="here")


def test_another_signature_or_another_payload_is_refused(place: KeyFile) -> None:
    make_key(place, now=NOW)
    good = signing_key(place).sign(PAYLOAD)
    for bad in (
        replace(good, payload={**PAYLOAD, "seq": "1"}),
        replace(good, signature=bytes(64)),
        replace(good, signature=b""),
        replace(good, key_id="0" * 32),
    ):
        with pytest.raises(BadStatement):
            place.public().check(bad, where="here")


def test_a_key_of_openssl_is_taken(place: KeyFile) -> None:
    place.path.parent.mkdir()
    made = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519"], capture_output=True, check=True
    )
    assert len(SigningKey.from_pem(made.stdout, where="here").sign(PAYLOAD).signature) == 64
