import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vaults import body, dashboard, new_vault, store

from headrace.looker.folder import (
    FolderEdited,
    FolderForeign,
    file_name,
    id_of_name,
    pack,
    unpack,
    write_whole,
)
from headrace.looker.vault import Vault, VaultOfAnother, item_of

_IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


@given(_IDS, _IDS)
def test_names_are_one_to_one_even_where_case_is_folded(one: str, other: str) -> None:
    name = file_name(one)
    assert name == name.lower()
    assert name.isascii()
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) <= 255
    assert (name == file_name(other)) == (one == other)
    assert id_of_name(name) in (one, None)


@pytest.mark.parametrize(
    ("item_id", "name"),
    [
        ("5", "5.json"),
        ("model::name", "model%3a%3aname.json"),
        ("../../x", "%2e.%2f..%2fx.json"),
        ("A", "%41.json"),
        ("a", "a.json"),
        ("con", "%63on.json"),
        ("..", "%2e..json"),
        ("x\0y", "x%00y.json"),
        ("a~b", "a%7eb.json"),
        ("headrace-vault", "headrace-vault.json"),
    ],
)
def test_names_that_one_can_rely_on(item_id: str, name: str) -> None:
    assert file_name(item_id) == name
    assert id_of_name(name) == item_id


@pytest.mark.parametrize("name", ["A.json", "a", "%zz.json", "%41%4A.json", "%61.json", ".json"])
def test_names_that_unpack_never_writes(name: str) -> None:
    with pytest.raises(ValueError):
        id_of_name(name)


@pytest.fixture
def vault(tmp_path: Path):
    with new_vault(tmp_path) as opened:
        store(
            opened,
            dashboard(1, "one"),
            dashboard("thelook::kpis", "two"),
            dashboard("../../x", "three \ud83d"),
            dashboard("A", "capital"),
            dashboard("a", "small"),
            item_of("look", body(id=7, title="look")),
        )
        yield opened


def test_files_hold_the_bytes_of_the_server_and_stay_in_the_folder(
    vault: Vault, tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "out"
    done = unpack(vault, folder)
    assert (done.written, done.unchanged, done.removed) == (6, 0, 0)
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [
        "dashboard/%2e.%2f..%2fx.json",
        "dashboard/%41.json",
        "dashboard/1.json",
        "dashboard/a.json",
        "dashboard/thelook%3a%3akpis.json",
        "headrace-vault.json",
        "look/7.json",
    ]
    for row in vault.contents.rows():
        path = folder / row.type / file_name(row.id)
        assert path.read_bytes() == vault.contents.body(row.type, row.id).body
    assert {p.name for p in tmp_path.iterdir()} == {"vault", "deep"}


def test_a_second_unpacking_writes_what_changed_and_removes_what_went(
    vault: Vault, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    session = store(vault, dashboard(1, "renamed"))
    vault.listings.delete(session, "look", "7", evidence="404")
    done = unpack(vault, folder)
    assert (done.written, done.unchanged, done.removed) == (1, 4, 1)
    assert not (folder / "look" / "7.json").exists()
    assert unpack(vault, folder, deleted=True).written == 1


def test_edits_become_versions_and_nothing_else_does(vault: Vault, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    edited = body(id="1", title="edited by hand")
    (folder / "dashboard" / "1.json").write_bytes(edited)
    (folder / "look" / "8.json").write_bytes(body(id="8", title="made by hand"))
    (folder / "look" / ".8.json.swp").write_bytes(b"of an editor")
    assert pack(vault, folder, dry_run=True).changed == ["dashboard 1"]
    assert vault.contents.body("dashboard", "1").version == 1
    done = pack(vault, folder)
    assert (done.changed, done.new, done.unchanged, done.refused) == (
        ["dashboard 1"], ["look 8"], 5, []
    )  # fmt: skip
    now = vault.contents.body("dashboard", "1")
    assert (now.body, now.version, now.origin, now.session) == (edited, 2, "pack", done.session)
    row = vault.contents.row("dashboard", "1")
    assert row is not None
    assert row.name == "edited by hand"
    again = pack(vault, folder)
    assert (again.session, again.changed, again.new, again.unchanged) == (None, [], [], 7)
    # The vault is still unpacked over it without a word about edits.
    assert unpack(vault, folder).written == 0


def test_an_old_folder_does_not_bring_old_bodies_back(vault: Vault, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    store(vault, dashboard(1, "newer on the server"))
    assert pack(vault, folder).changed == []
    (folder / "dashboard" / "1.json").write_bytes(body(id="1", title="edit of the old one"))
    done = pack(vault, folder)
    assert done.refused == [
        ("dashboard/1.json", "it is an edit of version 1, the vault has 2 by now")
    ]
    assert pack(vault, folder, force=True).changed == ["dashboard 1"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "not readable JSON"),
        (b"[]", "array|list"),
        (b'{"id": "2"}', "'2', while '1' was asked for"),
    ],
)
def test_a_broken_edit_costs_itself_alone(
    vault: Vault, tmp_path: Path, content: bytes, reason: str
) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    (folder / "dashboard" / "1.json").write_bytes(content)
    (folder / "look" / "7.json").write_bytes(body(id=7, title="good"))
    done = pack(vault, folder)
    assert done.changed == ["look 7"]
    ((path, said),) = done.refused
    assert path == "dashboard/1.json"
    assert any(each in said for each in reason.split("|")), said


def test_edits_are_not_overwritten(vault: Vault, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    target = folder / "dashboard" / "1.json"
    target.write_bytes(b"my work")
    with pytest.raises(FolderEdited, match=r"dashboard/1\.json"):
        unpack(vault, folder)
    assert target.read_bytes() == b"my work"
    unpack(vault, folder, force=True)
    assert target.read_bytes() == dashboard(1, "one").body


def test_a_killed_unpacking_is_not_taken_for_edits(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    written = []

    def dying(target: Path, content: bytes) -> None:
        if target.parent != folder:
            if len(written) == 3:
                raise Killed
            written.append(target)
        write_whole(target, content)

    folder = tmp_path / "out"
    for title in ("first", "second"):
        store(vault, *(dashboard(item_id, title) for item_id in ("1", "A", "a", "b")))
        written.clear()
        with monkeypatch.context() as patch:
            patch.setattr("headrace.looker.folder.write_whole", dying)
            with pytest.raises(Killed):
                unpack(vault, folder)
        packed = pack(vault, folder, dry_run=True)
        assert (packed.changed, packed.new, packed.refused) == ([], [], [])
        unpack(vault, folder)
        for row in vault.contents.rows():
            path = folder / row.type / file_name(row.id)
            assert path.read_bytes() == vault.contents.body(row.type, row.id).body


def test_a_file_of_ones_own_is_not_overwritten(vault: Vault, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    (folder / "look" / "8.json").write_bytes(b"mine")
    store(vault, item_of("look", body(id=8, title="came since")))
    with pytest.raises(FolderEdited, match=r"look/8\.json"):
        unpack(vault, folder)


def test_other_folders_are_left_alone(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"x")
    with pytest.raises(FolderForeign, match="not unpacked from a vault"):
        unpack(vault, tmp_path / "photos")
    with pytest.raises(FolderForeign, match=r"no headrace-vault\.json"):
        pack(vault, tmp_path / "photos")
    (tmp_path / "photos" / "headrace-vault.json").write_text("{")
    with pytest.raises(FolderForeign, match="cannot be read"):
        pack(vault, tmp_path / "photos")


def test_a_folder_goes_back_to_its_own_vault(vault: Vault, tmp_path: Path) -> None:
    unpack(vault, tmp_path / "out")
    with (
        new_vault(tmp_path / "second", source="https://two.example") as other,
        pytest.raises(VaultOfAnother),
    ):
        pack(other, tmp_path / "out")


def test_a_link_leads_nowhere(vault: Vault, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(vault, folder)
    secret = tmp_path / "secret.json"
    secret.write_bytes(body(id="9"))
    (folder / "look" / "9.json").symlink_to(secret)
    assert pack(vault, folder).new == []
    assert json.loads(secret.read_bytes()) == {"id": "9"}
