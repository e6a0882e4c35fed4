"""The commands on a vault, as their users meet them, with a simulated Looker behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.restores import EMPTY, SMALL, fill
from typer.testing import CliRunner

from headrace.cli.exit_codes import exit_of_error
from headrace.cli.main import app
from headrace.errors import HeadraceError
from headrace.looker.vault import ITEM, PAGE, Failed, Vault, item_of
from headrace.sim.looker import SimulatedLooker


class Desk:
    """A user at a terminal.

    Args:
        sim: the Looker behind the commands.
        vault: path of the vault.
    """

    def __init__(self, sim: SimulatedLooker, vault: Path) -> None:
        self.sim, self.vault = sim, vault

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code, and what was said on both streams."""
        result = CliRunner().invoke(app, ["looker", *words, "--vault", str(self.vault)])
        if isinstance(result.exception, HeadraceError):
            return exit_of_error(result.exception), f"headrace: {result.exception}"
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.exit_code, result.output

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The one object that --json prints."""
        got, said = self.run(*words, "--json")
        assert got == code, said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def server(self, *words: str) -> tuple[str, ...]:
        """The words, with the server of this desk."""
        return (*words, "--base-url", self.sim.url, "--rate", "none")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_LOOKER_SNAPSHOTS", str(tmp_path / "snapshots"))
    monkeypatch.setenv("LOOKERSDK_CLIENT_ID", "headrace")
    monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", "simulated-secret")
    monkeypatch.setenv("COLUMNS", "200")
    with SimulatedLooker(counts=SMALL) as sim:
        path = tmp_path / "vault" / "looker.sqlite"
        with Vault.open(path, create=True) as vault:
            fill(vault, sim)
        yield Desk(sim, path)


def test_what_the_vault_holds(desk: Desk) -> None:
    reported = desk.json("info")
    assert reported["source"] == desk.sim.url
    assert reported["types"]["look"]["items"] == SMALL["look"]
    assert reported["sessions"][0]["status"] == "done"
    items = desk.json("list", "dashboards")["items"]
    assert len(items) == SMALL["dashboard"] + SMALL["lookml_dashboard"]
    shown = desk.json("show", "look", "1")
    assert shown["body"].encode() == desk.sim.library.body("look", "1")
    code, said = desk.run("show", "look", "1", "--body")
    assert (code, said.encode()) == (0, desk.sim.library.body("look", "1"))
    for words in (("info",), ("list",), ("list", "board"), ("show", "look", "1"), ("failures",)):
        code, said = desk.run(*words)
        assert code == 0, said
    assert "no content type 'dashbord'" in desk.run("list", "dashbord")[1]
    assert desk.run("list", "dashbord")[0] == 2
    assert desk.run("show", "look", "999") == (
        2, "headrace: the vault holds no look '999'. See `headrace looker list look`"
    )  # fmt: skip


def test_strange_names_do_not_break_the_terminal(desk: Desk) -> None:
    title = "\ud83d [red]x[/red] \x1b[31m \0 \u202e" + "y" * 70_000
    desk.sim.library.edit("look", "1", title=title)
    with Vault.open(desk.vault) as vault:
        fill(vault, desk.sim)
    for words in (("list", "look"), ("show", "look", "1"), ("diff",)):
        code, said = desk.run(*words)
        assert code == 0
        assert "\x1b" not in said
        assert "[red]" in said
        assert len(said) < 5_000
    assert desk.json("list", "look")["items"][0]["name"].startswith("\\ud83d")


def test_differences_between_sessions(desk: Desk) -> None:
    desk.sim.library.edit("dashboard", "2", title="Renamed")
    with Vault.open(desk.vault) as vault:
        fill(vault, desk.sim)
    reported = desk.json("diff")
    assert reported["counts"] == {"changed": 1}
    (item,) = reported["items"]
    assert [(c["path"], c["after"]) for c in item["changes"]] == [("title", "Renamed")]
    assert "title: " in desk.run("diff", "1", "2")[1]
    assert desk.run("diff", "2", "1")[0] == 2


def test_unpacked_edited_packed_and_restored(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    assert desk.json("unpack", str(folder))["written"] == sum(
        item["items"] for item in desk.json("info")["types"].values()
    )
    file = folder / "look" / "3.json"
    file.write_bytes(file.read_bytes().replace(b'"title":"Look 3', b'"title":"Edited 3'))
    (folder / "look" / "4.json").write_bytes(b"{")
    reported = desk.json("pack", str(folder), code=4)
    assert reported["changed"] == ["look 3"]
    assert [path for path, _ in reported["refused"]] == ["look/4.json"]
    code, said = desk.run(*desk.server("restore", "look", "3"))
    assert (code, "repeat with --yes" in said) == (2, True)
    reported = desk.json(*desk.server("restore", "look", "3", "--yes"))
    assert reported["types"] == {"look": {"updated": 1}}
    assert b'"title":"Edited 3' in (desk.sim.library.body("look", "3") or b"")


def test_verifying(desk: Desk) -> None:
    reported = desk.json(*desk.server("verify"))
    assert reported["counts"] == {}
    assert (
        reported["compared"]
        == reported["versions"]
        == sum(of_type["items"] for of_type in desk.json("info")["types"].values())
    )
    desk.sim.library.edit("dashboard", "1", title="Later")
    desk.sim.library.remove("look", "2")
    desk.sim.library.create("group", {"name": "new"})
    desk.sim.add_fault("error,status=403,type=look,id=3")
    reported = desk.json(*desk.server("verify"), code=4)
    found = {(f["what"], f["type"], f["id"]) for f in reported["findings"]}
    assert found == {
        ("changed", "dashboard", "1"),
        ("gone", "look", "2"),
        ("missing", "group", "3"),
        ("missing", "group_hierarchy", "3"),
        ("unreadable", "look", "3"),
    }
    desk.json("verify", "--offline")
    with Vault.open(desk.vault) as vault, vault.file.writing() as db:
        db.execute("UPDATE body SET hash = zeroblob(32) WHERE rowid = 5")
    reported = desk.json("verify", "--offline", code=1)
    assert [f["what"] for f in reported["findings"]] == ["damaged"]


def test_asking_again_for_what_failed(desk: Desk) -> None:
    with Vault.open(desk.vault) as vault:
        session = vault.sessions.begin("extract")
        for item_id, status in (("1", 500), ("2", 403), ("77", 404)):
            vault.upsert_many(
                session, (), failures=[Failed("look", ITEM, item_id, status, "said no")]
            )
        vault.upsert_many(session, (), failures=[Failed("look", ITEM, "looks:17", None, "no id")])
        vault.upsert_many(
            session, (), failures=[Failed("user", PAGE, "users:0+100", None, "timed out")]
        )
    desk.sim.add_fault("error,status=403,type=look,id=2")
    assert len(desk.json("failures")["failures"]) == 5
    assert "timed out" in desk.run("failures")[1]
    reported = desk.json(*desk.server("retry"), code=4)
    assert reported["stored"] == [{"type": "look", "id": "1"}]
    assert [failed["id"] for failed in reported["failed"]] == ["2", "77"]
    assert [page["page"] for page in reported["pages"]] == ["looks:17", "users:0+100"]
    failures = {f["key"]: f for f in desk.json("failures")["failures"]}
    assert failures.keys() == {"2", "77", "looks:17", "users:0+100"}
    assert (failures["2"]["attempts"], failures["2"]["status"]) == (2, 403)
    desk.sim.simulation.clear_faults()
    reported = desk.json(*desk.server("retry", "--type", "look"), code=4)
    assert reported["stored"] == [{"type": "look", "id": "2"}]


def test_a_vault_is_compared_with_its_own_looker_only(desk: Desk) -> None:
    with SimulatedLooker(counts=EMPTY) as other:
        elsewhere = Desk(other, desk.vault)
        code, said = elsewhere.run(*elsewhere.server("verify"))
        assert (code, "holds the content of" in said) == (1, True)


def test_restoring_into_another_looker(desk: Desk) -> None:
    with SimulatedLooker(counts=EMPTY) as other:
        target = Desk(other, desk.vault)
        plan = target.json(*target.server("restore", "--dry-run"))
        assert plan["types"]["look"] == {"created": 4}
        writes = [a.target for a in other.arrivals() if a.subject.ask == "write"]
        assert writes == ["/api/logout"]
        reported = target.json(*target.server("restore", "--yes"))
        assert reported["status"] == "done"
        assert reported["types"]["dashboard"] == {"created": 6, "skipped": 1}
        assert len(other.library.ids("dashboard")) == 6
        code, said = target.run(*target.server("restore", "look", "--yes"))
        assert code == 0, said
        assert target.run("restore", "--failures")[1] == "nothing is failing\n"
        assert target.run(*target.server("restore", "explore", "--yes"))[0] == 1


@pytest.mark.parametrize("command", ["verify", "retry", "restore"])
def test_wrong_credentials_are_one_line_without_the_secret(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with Vault.open(desk.vault) as vault:
        vault.upsert_many(1, (), failures=[Failed("look", ITEM, "1", 500, "x")])
    monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", "not-the-secret")
    code, said = desk.run(*desk.server(command))
    assert (code, "refuses the login" in said) == (2, True)
    assert "not-the-secret" not in said
    monkeypatch.delenv("LOOKERSDK_CLIENT_SECRET")
    code, said = desk.run(*desk.server(command))
    assert (code, "LOOKERSDK_CLIENT_SECRET" in said) == (2, True)


def test_old_history_is_let_go(desk: Desk) -> None:
    desk.sim.library.edit("look", "1", title="Newer")
    with Vault.open(desk.vault) as vault:
        fill(vault, desk.sim)
    assert desk.json("cleanup", "--keep-days", "0", "--dry-run")["versions"] == 1
    assert desk.json("cleanup", "--keep-days", "1")["versions"] == 0
    assert "1 version " in desk.run("cleanup", "--keep-days", "0")[1]
    assert "no longer kept" in desk.run("diff")[1]
    assert len(desk.json("show", "look", "1")["versions"]) == 1


def test_snapshots(desk: Desk, tmp_path: Path) -> None:
    taken = desk.json("snapshot", "take")
    assert taken["counts"]["look"] == SMALL["look"]
    result = CliRunner().invoke(app, ["looker", "snapshot", "list", "--json"])
    assert [one["name"] for one in json.loads(result.output)["snapshots"]] == [taken["name"]]
    code, said = desk.run("snapshot", "fetch")
    assert (code, "Move it" in said) == (2, True)
    desk.vault.rename(tmp_path / "aside.sqlite")
    for journal in ("-wal", "-shm"):
        desk.vault.with_name(desk.vault.name + journal).unlink(missing_ok=True)
    assert desk.run("snapshot", "fetch")[0] == 0
    assert desk.json("info")["types"]["look"]["items"] == SMALL["look"]
    result = CliRunner().invoke(app, ["looker", "snapshot", "prune", "--keep", "1", "--json"])
    assert json.loads(result.output)["kept"] == [taken["name"]]
    assert desk.run("snapshot", "take", "--keep", "1")[0] == 0
    result = CliRunner().invoke(app, ["looker", "snapshot", "list", "--json"])
    # Taken within the same second, one of the same content has the same name.
    assert len(json.loads(result.output)["snapshots"]) == 1


def test_snapshots_are_signed_and_held_against_it(desk: Desk, tmp_path: Path) -> None:
    def snapshot(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["looker", "snapshot", *words])
        if isinstance(result.exception, HeadraceError):
            return exit_of_error(result.exception), str(result.exception)
        return result.exit_code, result.output

    assert desk.run("snapshot", "take", "--sign")[0] == 2
    assert snapshot("list")[1].startswith("no snapshot")
    assert CliRunner().invoke(app, ["evidence", "key", "make"]).exit_code == 0
    code, said = snapshot("verify")
    assert (code, "nothing was signed" in said) == (2, True)
    taken = desk.json("snapshot", "take", "--sign")
    assert taken["signed"] == 1
    assert snapshot("verify") == (0, "statement 1 names 1 snapshot, 0 differences\n")
    assert snapshot("delete", "latest", "--accept", "x")[0] == 2
    code, said = snapshot("delete", "latest", "--sign")
    assert (code, said.endswith("signed: statement 2\n")) == (0, True)
    taken = desk.json("snapshot", "take", "--sign")
    manifest = tmp_path / "snapshots" / "looker-snapshots" / f"{taken['name']}.json"
    manifest.unlink()
    code, said = snapshot("verify")
    assert (code, f"{taken['name']}: is gone" in said) == (4, True)
    code, said = desk.run("snapshot", "take", "--sign")
    assert (code, "was not signed" in said) == (1, True)
    assert desk.json("snapshot", "take", "--sign", "--accept", "a disk failed")["signed"] == 4


def test_a_damaged_vault_is_refused_by_every_command(desk: Desk, tmp_path: Path) -> None:
    content = desk.vault.read_bytes()
    damaged = content[:16384] + b"\xaa" * 16384 + content[32768:]
    desk.vault.write_bytes(damaged)
    for words in (
        ("verify", "--offline"),
        ("unpack", str(tmp_path / "out")),
        ("pack", str(tmp_path / "out")),
        desk.server("restore", "--yes"),
        desk.server("retry"),
        ("snapshot", "take"),
    ):
        code, said = desk.run(*words)
        assert (code, "is damaged" in said, "snapshot fetch" in said) == (1, True, True), words
    assert desk.vault.read_bytes() == damaged


def test_schedules_are_named_in_the_question_and_what_is_left_out_is_partial(
    desk: Desk, tmp_path: Path
) -> None:
    body = json.loads(desk.sim.library.body("dashboard", "3") or b"")
    body["dashboard_elements"].append({"id": "77", "title": "Merged", "merge_result_id": "x"})
    with Vault.open(desk.vault) as vault:
        session = vault.sessions.begin("pack")
        vault.upsert_many(session, [item_of("dashboard", json.dumps(body).encode())])
    with SimulatedLooker(counts=EMPTY, seed=2) as other:
        target = Desk(other, desk.vault)
        asked = target.run(*target.server("restore"))
        assert "2 schedules and 3 alerts arrive switched off (--enable-schedules)" in asked[1]
        asked = target.run(*target.server("restore", "--enable-schedules"))
        assert "2 schedules and 3 alerts, of which those that are on will SEND" in asked[1]
        code, said = target.run(*target.server("restore", "--yes"))
        assert code == 4, said
        assert "without tile 'Merged' depends on the merged query x, which is not there" in said
        assert "left out: tile 'Merged'" in target.run("restore", "--failures")[1]
        assert not json.loads(other.library.body("scheduled_plan", "1") or b"")["enabled"]
    asked = desk.run(*desk.server("restore", "scheduled_plan"))
    assert "schedules" not in asked[1]


@pytest.mark.parametrize("command", ["verify", "retry", "restore"])
def test_a_looker_that_goes_away_for_good_ends_a_command_with_one_message(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", "60")
    with Vault.open(desk.vault) as vault:
        session = vault.sessions.begin("extract")
        failures = [Failed("look", ITEM, str(n), 500, "broken") for n in range(40)]
        vault.upsert_many(session, (), failures=failures)
        held = vault.contents.counts()

    more = {"restore": ("--yes", "--force"), "retry": (), "verify": ()}[command]
    # It is there for the login and a few requests.
    desk.sim.add_fault("html,status=404,from_call=4")
    code, said = desk.run(*desk.server(command, *more, "--outage-limit-s", "1"))
    assert code == 1, said
    assert said.count("longer than the outage limit of 1 s") == 1
    with Vault.open(desk.vault) as vault:
        assert vault.contents.counts() == held
