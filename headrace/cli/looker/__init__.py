"""`headrace looker …`: Looker's content into a vault, and what can be done with a vault."""

from __future__ import annotations

from typing import ClassVar

import typer

from headrace.cli.lazy_commands import Lazy, LazyGroup


class _Commands(LazyGroup):
    """The commands, in the order of the help."""

    lazy: ClassVar[dict[str, Lazy]] = {
        "extract": Lazy(
            "headrace.cli.looker.extract:extract",
            "Bring the content of a Looker into a vault; a second run goes on where one broke off.",
        ),
        "list": Lazy(
            "headrace.cli.looker.contents:list_items",
            "List the items of a vault: type, id, name, folder, when changed and when seen last.",
        ),
        "info": Lazy(
            "headrace.cli.looker.contents:info",
            "What a vault holds by type, its size, its last sessions and what is still failing.",
        ),
        "show": Lazy(
            "headrace.cli.looker.contents:show",
            "Show one item: what the vault knows of it, its versions, and its body.",
        ),
        "failures": Lazy(
            "headrace.cli.looker.contents:failures",
            "List items and pages that failed: status, message, attempts.",
        ),
        "retry": Lazy(
            "headrace.cli.looker.extract:retry",
            "Ask once more for each item that failed; what comes is stored, the rest stays on the "
            "list.",
        ),
        "verify": Lazy(
            "headrace.cli.looker.extract:verify",
            "Recompute every hash of the vault, then compare its items with the server, byte for "
            "byte.",
        ),
        "diff": Lazy(
            "headrace.cli.looker.contents:diff",
            "Say what changed between two sessions: items added, deleted, returned, and every "
            "field.",
        ),
        "unpack": Lazy(
            "headrace.cli.looker.contents:unpack",
            "Write each item to {type}/{id}.json, the bytes as the server sent them.",
        ),
        "pack": Lazy(
            "headrace.cli.looker.contents:pack",
            "Take edited files back into the vault as new versions; `restore` brings them to "
            "Looker.",
        ),
        "restore": Lazy(
            "headrace.cli.looker.restore:restore",
            "Restore one item, a type or everything into the Looker at --base-url.",
        ),
        "promote": Lazy(
            "headrace.cli.looker.promote:promote",
            "Promote a folder, with all below it, from one Looker to another "
            "(development to production).",
        ),
        "validate": Lazy(
            "headrace.cli.looker.extract:validate",
            "Find looks, dashboards and schedules whose queries do not run any more.",
        ),
        "cleanup": Lazy(
            "headrace.cli.looker.extract:cleanup",
            "Remove versions that were replaced long ago; the current one of every item stays.",
        ),
        "snapshot": Lazy(
            "headrace.cli.looker.snapshot:app", "Copies of the vault, in a folder or in S3."
        ),
    }


app = typer.Typer(
    help="Looker's content in a vault: extract, compare, restore.",
    no_args_is_help=True,
    cls=_Commands,
)


@app.callback()
def looker() -> None:
    """Looker's content in a vault: extract, compare, restore."""
