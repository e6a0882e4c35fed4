"""`python -m bench.peers.table`: write the tables of docs/peers.md from the results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from bench.machine import RESULTS
from bench.peers.environments import PROJECT

PAGE = PROJECT / "docs/peers.md"
_PLACE = re.compile(r"(<!-- peers:(\w+) -->\n).*?(<!-- /peers -->)", re.DOTALL)

Row = dict[str, Any]


def main() -> None:
    """Put the tables of what was measured last into the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(page: str) -> str:
    """The page with the table of each job in its place."""

    def table_of(place: re.Match[str]) -> str:
        measured = json.loads((RESULTS / f"peers-{place[2]}.json").read_text())
        return f"{place[1]}{rendered(measured)}{place[3]}"

    return _PLACE.sub(table_of, page)


def rendered(measured: dict[str, Any]) -> str:
    """Amount, table, configurations and machine of one job, as Markdown."""
    columns = _COLUMNS[measured["job"]]
    lines = [
        measured["about"],
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    lines += [_line(row, columns) for row in measured["peers"]]
    lines += ["", *map(_configured, measured["peers"])]
    return "\n".join([*lines, "", _surroundings(measured), ""])


def _surroundings(measured: dict[str, Any]) -> str:
    before, after = measured["machine_before"], measured["machine_after"]
    rounds = measured["rounds"]
    runs = "One run" if rounds == 1 else f"Medians of {rounds} runs in turn"
    priority = ", all as real-time processes (`chrt`)" if measured["real_time"] else ""
    return (
        f"{before['at'][:10]}, {before['cores']} cores ({before['cpu']}), load {before['load_1m']} "
        f"at the beginning and {after['load_1m']} at the end{priority}, Python "
        f"{before['python']}, Headrace {before['versions']['headrace']}. {runs} (missing and "
        "repeated: the worst), and one with a kill."
    )


def _line(row: Row, columns: dict[str, Callable[[Row], str]]) -> str:
    if row["cannot"]:
        return f"| {row['name']} | Not done: {row['cannot']} {'| ' * len(columns)}|"
    return f"| {row['name']} | {' | '.join(value(row) for value in columns.values())} |"


def _configured(row: Row) -> str:
    """How a peer was configured; and what the figures do not say of its runs."""
    said = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    text = f"- *{row['name']}*{f' ({said})' if said else ''}: {row['how']}"
    for runs, figures in (("A clean run", row["clean"]), ("After the kill it", row["killed"])):
        if figures and figures["ended"] != "done":
            text += f" {runs} ended with {figures['ended']}."
    if row["killed"] and not row["killed"]["was_killed"]:
        text += " It was over before the kill."
    return text


def _clean(name: str, places: int | None = None) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        return _number(row["clean"][name], places)

    return value


def _killed(*names: str, places: int | None = None) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        return " / ".join(_number(row["killed"][name], places) for name in names)

    return value


def _number(value: float, places: int | None = None) -> str:
    return f"{value:,.{places}f}" if places is not None else f"{round(value):,}"


def _with_server(name: str, server: str, places: int) -> Callable[[Row], str]:
    def value(row: Row) -> str:
        own, of_server = row["clean"][name], row["clean"].get(server)
        added = "" if of_server is None else f" + {_number(of_server, places)}"
        return f"{_number(own, places)}{added}"

    return value


def _again(row: Row) -> str:
    return _number(max(0, row["killed"]["requests"] - row["clean"]["requests"]))


def _noticed(row: Row) -> str:
    return "yes" if row["clean"]["change_noticed"] else "no"


_CPU = _with_server("cpu_s", "server_cpu_s", 1)
_MEMORY = _with_server("peak_mb", "server_mb", 0)
_PULL: dict[str, Callable[[Row], str]] = {
    "missing": _clean("missing"),
    "after SIGKILL and a second run: missing / repeated": _killed("missing", "repeated"),
    "requests made again": _again,
    "429s": _clean("throttled"),
    "wall s": _clean("wall_s", 1),
    "CPU s": _CPU,
    "peak MB": _MEMORY,
    "lines written": lambda row: str(row["own_lines"]),
}
_COLUMNS: dict[str, dict[str, Callable[[Row], str]]] = {
    "trades": _PULL,
    "looker": _PULL,
    "limiters": {
        "missing": _clean("missing"),
        "429s": _clean("throttled"),
        "wall s": _clean("wall_s", 1),
        "CPU s": _clean("cpu_s", 1),
        "peak MB of all": _clean("peak_mb"),
        "fairness": _clean("fairness", 2),
        "with a SIGKILL: missing / 429s": _killed("missing", "throttled"),
        "wall s then": _killed("wall_s", places=1),
    },
    "log": {
        "missing": _clean("missing"),
        "after SIGKILL and a second run: missing / repeated": _killed("missing", "repeated"),
        "changed byte noticed": _noticed,
        "records/s": _clean("records_per_s"),
        "wall s": _clean("wall_s", 1),
        "CPU s": _CPU,
        "peak MB": _MEMORY,
        "lines written": lambda row: str(row["own_lines"]),
    },
}


if __name__ == "__main__":
    main()
