"""What errors at a place say, and what they carry."""

from __future__ import annotations

import pytest

from headrace.errors import NewerVersion, PlaceError, StateError


class Torn(PlaceError, StateError):
    """A file that is torn."""

    said = "{where} is torn: {reason}"
    way_out = "Mend it"


class Gone(PlaceError):
    """A file that is gone."""

    said = "{where!r} is gone"


class TooNew(NewerVersion):
    """A file of a newer version."""

    said = "{where} has version {found}, not {known}"


def test_an_error_at_a_place_says_where_and_why() -> None:
    torn = Torn("a/{file}", "line {3}")
    assert str(torn) == "a/{file} is torn: line {3}. Mend it"
    assert (torn.where, torn.reason) == ("a/{file}", "line {3}")
    assert isinstance(torn, StateError)


def test_a_hint_of_its_own_goes_first() -> None:
    assert Torn("a", "old", hint="Leave it").hint == "Leave it"
    assert str(Gone("a")) == "'a' is gone"


def test_a_newer_version_names_both_versions() -> None:
    with pytest.raises(StateError, match="a has version 3, not 2") as caught:
        raise TooNew("a", found=3, known=2)
    assert isinstance(caught.value, NewerVersion)
    assert (caught.value.where, caught.value.found, caught.value.known) == ("a", 3, 2)
