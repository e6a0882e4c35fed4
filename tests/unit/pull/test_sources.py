"""One lake, one origin per product."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from support.exchange import rows_of

from headrace.lake import open_lake
from headrace.pull.ledger import ForeignSource, check_source, source_host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.exchange.coinbase.com", "api.exchange.coinbase.com"),
        ("https://API.Exchange.Coinbase.com:443/path", "api.exchange.coinbase.com"),
        ("https://key:secret@api.example.com", "api.example.com"),
        ("http://127.0.0.1:8000", "localhost"),
        ("http://localhost:9000", "localhost"),
        ("http://[::1]:9000", "localhost"),
        ("http://[2001:db8::1]/", "2001:db8::1"),
    ],
)
def test_the_host_is_what_answers_without_port_and_secrets(url, host):
    assert source_host(url) == host


def test_a_product_keeps_its_origin(tmp_path):
    lake = open_lake(tmp_path).raw("coinbase")
    check_source(lake, "BTC-USD", "anywhere")
    table = pa.Table.from_batches([rows_of([1, 2])])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    lake.write("BTC-USD", 1, 2, table, source="api.example.com", fetched_at=now)
    check_source(lake, "BTC-USD", "api.example.com")
    check_source(lake, "ETH-USD", "localhost")
    with pytest.raises(ForeignSource) as refused:
        check_source(lake, "BTC-USD", "localhost")
    assert (refused.value.stored, refused.value.asked) == ("api.example.com", "localhost")
    assert "another lake" in str(refused.value)
