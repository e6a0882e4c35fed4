"""The folders that an extraction is narrowed to, those below them included if so asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from headrace.looker.client import Call, LookerClient, NotFound
from headrace.looker.content import content_of
from headrace.looker.exceptions import UnknownFolder
from headrace.looker.extract.elements import elements_of
from headrace.looker.vault import item_of


def chosen_folders(
    client: LookerClient, folder_ids: Sequence[str], *, recursive: bool
) -> tuple[str, ...]:
    """Ids of the folders, each once, parents first.

    Raises:
        UnknownFolder: Looker has no such folder.
        ExchangeError: it could not be asked.
    """
    for folder_id in folder_ids:
        try:
            client.item("folder", folder_id, fields="id")
        except NotFound as error:
            raise UnknownFolder(folder_id) from error
    if not folder_ids or not recursive:
        return tuple(folder_ids)
    below = _children(client)
    chosen: dict[str, None] = {}
    waiting = list(folder_ids)
    while waiting:
        folder_id = waiting.pop(0)
        if folder_id not in chosen:  # a ring of folders ends here, too
            chosen[folder_id] = None
            waiting += below[folder_id]
    return tuple(chosen)


def _children(client: LookerClient) -> dict[str, list[str]]:
    """Folders by their parent, from one request."""
    listing = content_of("folder").listings[0]
    body = client.page(
        listing, fields="id,parent_id", call=Call(about="the folders", type="folder")
    )
    children: dict[str, list[str]] = defaultdict(list)
    for element in elements_of(body, "the folders"):
        folder = item_of("folder", element)
        if folder.folder is not None:
            children[folder.folder].append(folder.id)
    return children
