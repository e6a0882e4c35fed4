"""Where a lake of a test is, a folder or a bucket, and what must be true of it after any kill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from headrace.coverage import IntervalSet
from headrace.lake import RawLake, open_lake
from headrace.sim import SimulatedExchange
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, s3_client, settings_for
from tests.support.prefect_server import saved_checkpoint
from tests.support.pulls import assert_lake_equals_source


@dataclass(frozen=True)
class Place:
    """A lake as the command line names it.

    Args:
        location: what `--lake` gets.
        scratch: a folder for copies of what is in a bucket.
        endpoint: URL of the S3 server, None for a folder.
    """

    location: str
    scratch: Path
    endpoint: str | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What boto3 has to find in its environment."""
        return aws_environment(self.endpoint) if self.endpoint else {}

    def open(self) -> RawLake:
        """The raw layer, opened by this process."""
        settings = settings_for(self.endpoint, listing_page=1_000) if self.endpoint else None
        return open_lake(self.location, s3=settings).raw("coinbase")

    def coverage(self, product: str) -> IntervalSet:
        """The covered ranges, from names."""
        return self.open().coverage(product)

    def uploads(self) -> list[str]:
        """Keys of multipart uploads into the bucket that were not completed."""
        if self.endpoint is None:
            return []
        listed = s3_client(self.endpoint).list_multipart_uploads(Bucket=BUCKET)
        return [upload["Key"] for upload in listed.get("Uploads", ())]

    def copy(self) -> Path:
        """A folder with every object as it is named: the lake itself, or a copy of the bucket."""
        if self.endpoint is None:
            return Path(self.location)
        folder = self.scratch / uuid4().hex
        prefix = self.location.removeprefix(f"s3://{BUCKET}/") + "/"
        client = s3_client(self.endpoint)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        for key in (item["Key"] for page in pages for item in page.get("Contents", ())):
            path = folder / key.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        return folder


def local_place(folder: Path) -> Place:
    """A lake in a new folder under `folder`."""
    return Place(str(folder / "lake"), folder)


def s3_place(endpoint: str, folder: Path) -> Place:
    """A lake under a new prefix of the test bucket."""
    return Place(f"s3://{BUCKET}/flows/{uuid4().hex}", folder, endpoint)


def aws_environment(endpoint: str) -> dict[str, str]:
    """boto3's own variables for a test server."""
    return {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@dataclass(frozen=True)
class Truth:
    """What a lake is held against: the exchange's own trades, and the checkpoint's API.

    Args:
        sim: the exchange.
        api_url: the Prefect API that keeps the checkpoints.
        product: canonical product id.
    """

    sim: SimulatedExchange
    api_url: str
    product: str = field(default="BTC-USD")

    def assert_sound(self, place: Place) -> IntervalSet:
        """Whatever happened: final names hold whole parts, readers see each covered trade once.

        Returns what is covered.
        """
        raw = place.open()
        listing = raw.parts(self.product)
        assert listing.foreign == listing.overlaps == ()
        for part in (*listing.parts, *listing.hidden):
            raw.verify(part)
        history = self.sim.history(self.product)
        for lo, hi in listing.coverage:
            ids = raw.read(self.product, lo, hi).column("trade_id").to_pylist()
            assert ids == list(history.columns(lo, hi).trade_id)
        checkpoint = saved_checkpoint(self.api_url, raw.store.location, self.product)
        assert checkpoint is None or not checkpoint.coverage - listing.coverage
        return listing.coverage

    def assert_complete(self, place: Place, *, healed: bool = False) -> None:
        """After a whole run: the source's trades and nothing else, and a checkpoint that says so.

        Every file counts as any reader of the folder sees it: a piece beside its merged part would
        double rows, and a temporary file is no name of ours. What was set aside may stand in a
        lake that was `healed`.
        """
        raw, copy = place.open(), place.copy()
        assert place.uploads() == []
        assert_lake_equals_source(copy, self.sim, self.product)
        listing = raw.parts(self.product)
        for part in listing.parts:
            raw.verify(part)
        files = {path for path in copy.rglob("*") if path.is_file()}
        if healed:
            files -= set((copy / "_headrace/aside").rglob("*"))
        names = {path.name for path in files}
        parts = {part.key.rpartition("/")[2] for part in listing.parts}
        assert names == {"grid-coinbase.json", *parts}
        checkpoint = saved_checkpoint(self.api_url, raw.store.location, self.product)
        newest = self._newest_trade()
        assert checkpoint is not None
        assert checkpoint.coverage == listing.coverage == IntervalSet.of((1, newest))
        assert (checkpoint.watermark, checkpoint.newest) == (newest, newest)
        assert checkpoint.failed == ()

    def _newest_trade(self) -> int:
        """The highest id that is a trade; the tape may end in a hole."""
        end = self.sim.newest_id(self.product)
        ids = self.sim.history(self.product).columns(max(1, end - 10_000), end).trade_id
        return int(ids[-1])
