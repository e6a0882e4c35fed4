"""A vault's items as files, `{type}/{id}.json`, to read, compare and edit; and back again."""

from headrace.looker.folder.exceptions import FolderEdited, FolderForeign
from headrace.looker.folder.names import file_name, id_of_name
from headrace.looker.folder.packing import Packed, pack
from headrace.looker.folder.unpacking import Unpacked, unpack

__all__ = [
    "FolderEdited",
    "FolderForeign",
    "Packed",
    "Unpacked",
    "file_name",
    "id_of_name",
    "pack",
    "unpack",
]
