"""Listings read without boto3: what stores answer, and what is no listing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from botocore.parsers import ResponseParserError

from headrace.lake.s3_reading import parse_listing

MOMENT = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
AMAZON = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>lake</Name>
<Prefix>a/</Prefix><NextContinuationToken>to/ken==</NextContinuationToken><KeyCount>3</KeyCount>
<MaxKeys>3</MaxKeys><Delimiter>%2F</Delimiter><EncodingType>url</EncodingType>
<IsTruncated>true</IsTruncated>
<Contents><Key>a/b+c%3Dd</Key>
<LastModified>2026-03-01T12:00:00.500Z</LastModified><Size>12</Size><StorageClass>STANDARD</StorageClass></Contents>
<Contents><Size>0</Size><Key>a/%C3%BC</Key></Contents>
<CommonPrefixes><Prefix>a/folder/</Prefix></CommonPrefixes></ListBucketResult>"""


def test_a_page_of_a_listing() -> None:
    assert parse_listing(AMAZON) == {
        "Contents": [
            {"Key": "a/b c=d", "Size": 12, "LastModified": MOMENT},
            {"Key": "a/ü", "Size": 0, "LastModified": None},
        ],
        "CommonPrefixes": [{"Prefix": "a/folder/"}],
        "IsTruncated": True,
        "NextContinuationToken": "to/ken==",
    }


def test_stores_that_know_no_encoding_and_no_namespace() -> None:
    content = (
        b"<ListBucketResult><IsTruncated>false</IsTruncated>"
        b"<Contents><Key>a+b%20</Key><Size>1</Size></Contents></ListBucketResult>"
    )

    assert parse_listing(content) == {
        "Contents": [{"Key": "a+b%20", "Size": 1, "LastModified": None}],
        "CommonPrefixes": [],
        "IsTruncated": False,
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html><body>502</body></html>",
        AMAZON[:-30],
        b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ],
)
def test_what_is_no_whole_listing_is_never_taken_for_an_empty_one(content: bytes) -> None:
    with pytest.raises(ResponseParserError):
        parse_listing(content)
