"""An answer is held against rows that are known: those of its range, whatever else it shows."""

import pytest

from headrace.exchange.exceptions import Contradiction
from headrace.exchange.pages import Page
from headrace.exchange.proof import check_rows
from tests.lake_samples import trades


def page(ids):
    return Page("X-USD", None, trades(ids).to_batches()[0])


@pytest.mark.parametrize(
    ("shown", "known"),
    [
        (range(1, 501), range(1, 501)),
        (range(1, 501), range(400, 600)),
        (range(100, 501), range(1, 501)),
        ([1, 2, 3, 5, 8], [1, 3, 8]),  # others came to light since
        ([1, 2, 3], range(4, 9)),
        (range(100, 501), [*range(1, 300), *range(301, 400)]),
    ],
)
def test_a_page_that_shows_what_is_known_passes(shown, known):
    check_rows(page(shown), trades(known))


@pytest.mark.parametrize(
    ("shown", "known", "named"),
    [
        ([1, 2, 3, 5, 8], [1, 4, 8], 4),
        ([1, 2, 8], [1, 2, 3, 8], 3),
    ],
)
def test_a_page_that_lacks_a_known_trade_is_refused(shown, known, named):
    with pytest.raises(Contradiction, match=f"trade {named} differs"):
        check_rows(page(shown), trades(known))


@pytest.mark.parametrize("at", [0, 250, 499])
def test_a_trade_of_another_price_is_named(at):
    known = trades(range(1, 501))
    prices = known["price"].to_pylist()
    prices[at] = "77.25"
    known = known.set_column(2, known.schema.field(2), [prices])
    with pytest.raises(Contradiction, match=f"trade {at + 1} differs"):
        check_rows(page(range(1, 501)), known)
