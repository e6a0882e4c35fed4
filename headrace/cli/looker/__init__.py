"""`headrace looker …`: Looker's content into a vault, and what can be done with a vault."""

from __future__ import annotations

import typer

from headrace.cli.looker import (
    cleanup,
    contents,
    diff,
    extract,
    failures,
    folders,
    restore,
    retry,
    snapshot,
    verify,
)

app = typer.Typer(help="Looker's content, kept in a vault.", no_args_is_help=True)
app.command("extract")(extract.extract)
app.command("list")(contents.list_items)
app.command("info")(contents.info)
app.command("show")(contents.show)
app.command("failures")(failures.failures)
app.command("retry")(retry.retry)
app.command("verify")(verify.verify)
app.command("diff")(diff.diff)
app.command("unpack")(folders.unpack)
app.command("pack")(folders.pack)
app.command("restore")(restore.restore)
app.command("cleanup")(cleanup.cleanup)
app.add_typer(snapshot.app, name="snapshot")


@app.callback()
def looker() -> None:
    """Looker's content, kept in a vault."""
