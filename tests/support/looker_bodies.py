"""Bodies in the forms in which Lookers of several versions write them, made for tests.

Numbers and texts as ids, one and two spaces of indent, times with an offset, with `+0000`, with
milliseconds or absent, nulls, escapes, trailing line feeds, fields that no model of the SDK has.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """A body as it comes over the wire, and what it says."""

    type: str
    id: str
    name: str
    raw: bytes
    created_at: str | None = None
    updated_at: str | None = None


WRITTEN = (
    Written(
        "dashboard",
        "17",
        "Flights per day",
        b'{\n  "description": "",\n  "hidden": false,\n  "query_timezone": "America/Los_Angeles",\n'
        b'  "title": "Flights per day",\n  "slug": "Ab3dE5",\n  "id": "17",\n'
        b'  "dashboard_elements": [\n'
        b'    {"id": "181", "body_text": "a \\u003cb\\u003e", "note": null}\n'
        b'  ],\n  "appearance": null\n}\n',
    ),
    Written(
        "dashboard",
        "2",
        "Brands",
        b'{\n "content_metadata_id": 8,\n "id": 2,\n "title": "Brands",\n'
        b' "created_at": "2017-09-18T17:29:12.757-07:00",\n "readonly": false,\n'
        b' "dashboard_filters": [],\n "can": {\n  "index": true,\n  "render": true\n }\n}',
        created_at="2017-09-19T00:29:12.757000Z",
    ),
    Written(
        "look",
        "198",
        "Daily profit, \u20ac",
        b'{\n "id": 198,\n "view_count": 1e1,\n "title": "Daily profit, \\u20ac",\n'
        b' "created_at": "2015-04-09 18:53:26 +0000",\n'
        b' "updated_at": "2018-04-30 19:38:23 +0000",\n'
        b' "folder": {"id": "33", "name": "Finance"},\n "deleted": false\n}',
        created_at="2015-04-09T18:53:26.000000Z",
        updated_at="2018-04-30T19:38:23.000000Z",
    ),
    Written(
        "user",
        "1",
        "Pat Example",
        b'{\n "avatar_url": "https://example.com/0000?s=156&d=blank",\n "id": 1,\n'
        b' "display_name": "Pat Example",\n "credentials_api3": [],\n "credentials_ldap": null,\n'
        b' "can": {\n  "show_creds": true,\n  "sudo": false\n }\n}\n',
    ),
)
