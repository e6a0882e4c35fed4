"""The stand-alone check reads a bucket as it reads a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

import verify_evidence
from headrace.audit.signing import Signing
from headrace.evidence.keys import KeyList, PublicKey, SigningKey
from headrace.lake import content_digest, open_lake
from headrace.manifests.chain import opening, sealing
from headrace.manifests.lakes import LakeManifests
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, settings_for

SCRIPT = Path(__file__).parents[2] / "verify_lake.py"


@pytest.mark.services
def test_a_lake_in_a_bucket(seaweed_url: str) -> None:
    location = f"s3://{BUCKET}/verify/{uuid4().hex}"
    rows = trades(range(1, 900))
    raw = open_lake(location, s3=settings_for(seaweed_url)).raw("coinbase")
    raw.write("BTC-USD", 1, 1_000, rows, source=SOURCE, fetched_at=FETCHED_AT)

    done = subprocess.run(
        [sys.executable, str(SCRIPT), f"{location}?endpoint_override={seaweed_url}&region=here"],
        env={**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "coinbase BTC-USD: ok" in done.stdout
    assert str(content_digest(rows)) in done.stdout


@pytest.mark.services
def test_a_signed_lake_in_a_bucket(
    seaweed_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    location = f"s3://{BUCKET}/verify/{uuid4().hex}"
    raw = open_lake(location, s3=settings_for(seaweed_url)).raw("coinbase")
    raw.write("BTC-USD", 1, 1_000, trades(range(1, 900)), source=SOURCE, fetched_at=FETCHED_AT)
    key = SigningKey.make()
    listed = KeyList([PublicKey(key.public_key, "")])
    manifests = LakeManifests(raw.store, "coinbase", opening(listed))
    signing = Signing(raw, manifests, sealing(key))
    signing.sign("BTC-USD", newest=0, newest_answer=None, now=FETCHED_AT)
    manifests.sign_head(sealing(key), FETCHED_AT)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(listed.as_dict()))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    url = f"{location}?endpoint_override={seaweed_url}&region=here"
    verify = ["lake", url, "--keys", str(keys), "--trust", key.key_id]
    assert verify_evidence.main(verify) == 0
    raw.store.delete(raw.parts("BTC-USD").parts[0].key)
    assert verify_evidence.main(verify) == 1
    assert "WRONG: coinbase BTC-USD: ids 1-1000: no part answers" in capsys.readouterr().out
