"""Pages that overlap: where the end is, what joins, what is left to read."""

import pytest

from headrace.looker.extract.pages import Chain, ReadPage, bridges, joined
from headrace.looker.vault import Page


def page(start, ids, asked=4):
    return ReadPage(start, asked, tuple(map(str, ids)), len(ids))


def chain(*pages, stride=3):
    made = Chain(stride)
    for each in pages:
        made.add(each)
    return made


def test_a_full_page_says_nothing_of_the_end_and_a_short_one_may():
    assert chain(page(0, [1, 2, 3, 4])).end() is None
    assert chain(page(0, [1, 2, 3, 4]), page(3, [4, 5])).end() == 5
    assert chain(page(0, [])).end() == 0


def test_starts_go_on_until_a_page_shows_the_end():
    made = chain(page(0, [1, 2, 3, 4]))
    starts = made.starts()
    assert [next(starts) for _ in range(3)] == [3, 6, 9]
    made.add(page(3, [4, 5]))
    assert list(made.starts()) == []


def test_what_is_stored_already_is_not_read_again():
    made = chain(page(0, [1, 2, 3, 4]), page(6, [7]))
    assert list(made.starts()) == [3]


def test_neighbours_join_where_the_last_of_one_is_the_first_of_the_next():
    assert joined(page(0, [1, 2, 3, 4]), page(3, [4, 5]))
    assert not joined(page(0, [1, 2, 3, 4]), page(3, [5, 6]))
    made = chain(page(0, [1, 2, 3, 4]), page(3, [5, 6, 7, 8]), page(6, [8, 9]))
    assert [(a.start, b.start) for a, b in made.breaks()] == [(0, 3)]
    assert made.items() == 9


def test_a_window_bridges_a_joint_if_it_shows_both_sides():
    before, after = page(0, [1, 2, 3, 4]), page(3, [6, 7])
    assert bridges(before, after, ["3", "4", "5", "6"])
    assert bridges(before, after, ["2", "7"])
    assert not bridges(before, after, ["5", "6", "7"])
    assert not bridges(before, after, ["3", "4", "5"])


def test_a_page_that_was_not_the_end_makes_the_empty_ones_behind_it_unread():
    short = page(3, [4, 5])
    made = chain(page(0, [1, 2, 3, 4]), short, page(6, []))
    made.not_the_end(short)
    assert made.end() is None
    assert 6 in next(zip(made.starts(), range(3), strict=False))


def test_a_server_that_gives_less_is_read_in_its_own_steps():
    made = chain(page(0, [1, 2], asked=11), page(1, [2, 3], asked=11), stride=10)
    made.clamp(2)
    assert made.stride == 1
    assert made.asked == 2
    assert made.end() is None
    starts = made.starts()
    assert [next(starts), next(starts)] == [2, 3]


@pytest.mark.parametrize("items", [0, 1, 2, 9])
def test_a_page_of_an_earlier_run_joins_by_the_ids_at_its_ends(items):
    stored = Page("look", "looks", 0, 10, items, "1" if items else "", str(items) if items else "")
    read = ReadPage.of(stored)
    assert read.count == items
    assert not read.full
    if items:
        assert joined(read, page(items - 1, [items]))
