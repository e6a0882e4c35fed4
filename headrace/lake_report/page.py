"""A lake's facts as one HTML page: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from headrace.amounts import counted
from headrace.coverage import IntervalSet, Range
from headrace.lake_report.drawing import WIDTH, Axis, bars, binned, chart, short, strip
from headrace.lake_report.facts import LakeFacts, ProductFacts
from headrace.logs.redaction import safe_text

#: With more products rows are low, and labels below strips are left out.
_FEW: Final = 16
_RANGES_SHOWN: Final = 40
_CHART_BINS: Final = 180
_PRODUCT_BINS: Final = 100


def render(facts: LakeFacts) -> str:
    """The page."""
    style = files("headrace.lake_report").joinpath("style.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    ordered = sorted(facts.products, key=lambda each: (-each.problems, -each.rows, each.product))
    body = "".join(
        (
            _head(facts),
            _tiles(facts),
            _problem(facts),
            _daily(facts),
            _products(ordered, facts),
            _ranges(ordered),
            _quality(ordered),
            _runs(facts),
            _foot(facts),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'sha256-{digest}'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Lake report: {_text(facts.location)}</title>"
        f"<style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def _head(facts: LakeFacts) -> str:
    troubled = sum(bool(each.problems) for each in facts.products)
    if facts.unified_problem:
        verdict = '<span class="verdict bad">the unified table cannot be read</span>'
    elif troubled:
        verdict = f'<span class="verdict bad">{counted(troubled, "product")} to look at</span>'
    else:
        verdict = '<span class="verdict good">nothing is missing</span>'
    return (
        f'<header><div><h1>Lake report</h1><p class="where">{_text(facts.location)}</p></div>'
        f'<div class="made">{verdict}<p>{_moment(facts.made_at)}</p></div></header>'
    )


def _tiles(facts: LakeFacts) -> str:
    products = facts.products
    rows = sum(each.rows for each in products)
    missing = sum(each.missing.count for each in products)
    newest = max((each.newest for each in products if each.newest), default=None)
    answered = sum(each.covered.count for each in products)
    share = answered / (answered + missing) if answered else 0.0
    size = sum(each.size_bytes for each in products)
    parts = sum(each.parts for each in products)
    tiles = [
        ("Products", f"{len(products):,}", _exchanges(products)),
        ("Trades", short(rows), f"{rows:,}"),
        ("Answered for", _percent(share), f"{missing:,} ids missing"),
        (
            "Newest trade",
            _age(newest, facts.made_at),
            _moment(newest) if newest else "no trade is stored",
        ),
        ("Raw layer", _size(size), counted(parts, "part")),
    ]
    if facts.unified_problem:
        tiles.append(("Unified table", "unknown", "it cannot be read, see below"))
    elif facts.unified:
        version, count, size = facts.unified
        tiles.append(("Unified table", _size(size), f"version {version}, {counted(count, 'file')}"))
    else:
        tiles.append(("Unified table", "none", "headrace transform"))
    return (
        '<section class="tiles">'
        + "".join(
            f'<div><h2>{_text(name)}</h2><p class="figure">{_text(value)}</p>'
            f"<p>{_text(note)}</p></div>"
            for name, value, note in tiles
        )
        + "</section>"
    )


def _problem(facts: LakeFacts) -> str:
    if not facts.unified_problem:
        return ""
    return (
        f"<section><h2>The unified table cannot be read</h2><p>{_text(facts.unified_problem)}</p>"
        "</section>"
    )


def _daily(facts: LakeFacts) -> str:
    span = _days(facts.products)
    if span is None:
        return ""
    days: Counter[date] = Counter()
    for each in facts.products:
        days.update(each.days)
    values = binned(days, *span, _CHART_BINS)
    per_bin = -(-((span[1] - span[0]).days + 1) // len(values))
    unit = "day" if per_bin == 1 else f"{per_bin} days"
    source = "" if facts.exact_days else ", estimated from the parts"
    return (
        f'<section><h2>Trades per {unit}<span class="note">all products{source}</span></h2>'
        '<div class="scroll">'
        f"{chart(values, *span, label=f'Trades per {unit}, {span[0]} to {span[1]}')}"
        "</div></section>"
    )


def _products(ordered: list[ProductFacts], facts: LakeFacts) -> str:
    few = len(ordered) <= _FEW
    span = _days(ordered)
    several = len({each.exchange for each in ordered}) > 1
    rows = "".join(_row(each, facts, span, few=few, several=several) for each in ordered)
    legend = "".join(
        f'<span><i class="{kind}"></i>{words}</span>'
        for kind, words in (
            ("stored", "stored"),
            ("hole", "does not exist at the exchange"),
            ("missing", "missing"),
            ("failed", "failed in the last run"),
        )
        if kind != "failed" or any(each.failed for each in ordered)
    )
    over_time = f"{span[0]} to {span[1]}" if span else ""
    return (
        f'<section><h2>Products<span class="legend">{legend}</span></h2>'
        f'<div class="scroll"><table class="products{" few" if few else ""}"><thead><tr>'
        "<th>Product</th><th>Trade ids <small>each from its first to its last</small></th>"
        f"<th>Trades over time <small>{over_time}</small></th>"
        '<th class="n">Trades</th><th class="n">Missing ids</th><th class="n">Watermark</th>'
        '<th class="n">Newest trade</th><th class="n">Unified</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _row(
    each: ProductFacts,
    facts: LakeFacts,
    span: tuple[date, date] | None,
    *,
    few: bool,
    several: bool,
) -> str:
    height = 22 if few else 12
    ids, times, ends = "", "", ""
    missing = each.missing
    if each.ids:
        lo, hi = each.ids
        label = f"{each.product}: ids {lo:,} to {hi:,}, {missing.count:,} missing"
        kinds = {
            "stored": each.covered - each.holes,
            "hole": each.holes,
            "missing": missing,
            "failed": each.failed,
        }
        axis = Axis(lo, hi + 1)
        spans = {kind: ((a, b + 1) for a, b in ranges) for kind, ranges in kinds.items()}
        ids = strip(axis, spans, height=height, label=label)
        ends = f'<p class="ends"><span>{lo:,}</span><span>{hi:,}</span></p>' if few else ""
    if span and each.oldest and each.newest:
        times = _over_time(each, span, height=height)
    name = f"<small>{_text(each.exchange)}</small>" if several else ""
    dot = "bad" if each.problems else "good"
    return (
        f'<tr><th scope="row"><i class="dot {dot}"></i>{_text(each.product)}{name}</th>'
        f"<td>{ids}{ends}</td><td>{times}</td>"
        f'<td class="n">{each.rows:,}</td>'
        f'<td class="n{" bad" if missing else ""}">{missing.count:,}</td>'
        f'<td class="n">{each.watermark:,}</td>'
        f'<td class="n">{_text(_age(each.newest, facts.made_at))}</td>'
        f'<td class="n">{_unified(each)}</td></tr>'
    )


def _over_time(each: ProductFacts, span: tuple[date, date], *, height: int) -> str:
    """Bars of trades above a strip of the same axis that says when trades are missing."""
    begin = datetime.combine(span[0], datetime.min.time(), UTC).timestamp()
    end = begin + ((span[1] - span[0]).days + 1) * 86_400

    def at(ranges: Iterable[Range]) -> Iterator[tuple[float, float]]:
        for ids in ranges:
            if found := each.times_of(ids):
                yield found[0].timestamp(), found[1].timestamp()

    axis = Axis(begin, end)
    oldest, newest = each.oldest, each.newest
    kinds = {
        "stored": [(oldest.timestamp(), newest.timestamp())] if oldest and newest else [],
        "hole": at(each.holes),
        "missing": at(_merged(each, each.missing)),
        "failed": at(each.failed),
    }
    label = f"{each.product}: {oldest:%Y-%m-%d} to {newest:%Y-%m-%d}"
    values = binned(each.days, *span, _PRODUCT_BINS)
    return bars(values, height=height - 4, label=label) + strip(axis, kinds, height=4, label=label)


def _merged(each: ProductFacts, ranges: IntervalSet) -> IntervalSet:
    """Ranges that would be drawn in one place, as one: a lake may miss a thousand pages."""
    if not each.ids:
        return ranges
    least = (each.ids[1] - each.ids[0]) // (2 * WIDTH)
    merged: list[Range] = []
    for lo, hi in ranges:
        if merged and lo - merged[-1][1] <= least:
            merged[-1] = merged[-1][0], hi
        else:
            merged.append((lo, hi))
    return IntervalSet(tuple(merged))


def _ranges(ordered: list[ProductFacts]) -> str:
    rows: list[str] = []
    left = 0
    for each in ordered:
        failed = each.failed
        for ids in each.missing:
            if len(rows) >= _RANGES_SHOWN:
                left += 1
                continue
            kind = "failed" if failed.contains(*ids) else "missing"
            when = each.times_of(ids)
            about = f"{when[0]:%Y-%m-%d %H:%M} to {when[1]:%Y-%m-%d %H:%M}" if when else ""
            rows.append(
                f'<tr><td><i class="key {kind}"></i>{kind}</td><td>{_text(each.product)}</td>'
                f'<td class="n">{ids[0]:,}</td><td class="n">{ids[1]:,}</td>'
                f'<td class="n">{ids[1] - ids[0] + 1:,}</td><td>{about}</td></tr>'
            )
    unreadable = [text for each in ordered for text in each.unreadable]
    if not rows and not unreadable:
        return ""
    table = (
        '<div class="scroll"><table><thead><tr><th>What</th><th>Product</th>'
        '<th class="n">First id</th><th class="n">Last id</th><th class="n">Ids</th>'
        f"<th>About when (UTC)</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        if rows
        else ""
    )
    more = f"<p>and {counted(left, 'more range')}</p>" if left else ""
    parts = "".join(f"<li>{_text(text)}</li>" for text in unreadable[:_RANGES_SHOWN])
    damaged = f"<h3>Parts that cannot be read</h3><ul>{parts}</ul>" if parts else ""
    return (
        '<section><h2>Missing<span class="note">headrace backfill fetches them; '
        "headrace audit --heal what cannot be read</span></h2>"
        f"{table}{more}{damaged}</section>"
    )


def _quality(ordered: list[ProductFacts]) -> str:
    made = [each.checks for each in ordered if each.checks]
    if not made:
        return ""
    breaches = [breach for checks in made for breach in checks.breaches]
    failed = [checks for checks in made if checks.error]
    if not breaches and not failed:
        words = f"Every bound holds for {counted(len(made), 'product')}."
        return f'<section><h2>Checks</h2><p class="calm">{words}</p></section>'
    rows = "".join(
        f"<tr><td>{_text(breach.check)}</td><td>{_text(breach.product)}</td>"
        f"<td>{_text(breach.message)}</td><td>{_text(breach.bound)}</td></tr>"
        for breach in breaches[:_RANGES_SHOWN]
    ) + "".join(
        f"<tr><td>not checked</td><td>{_text(checks.product)}</td><td>{_text(checks.error)}</td>"
        "<td></td></tr>"
        for checks in failed[:_RANGES_SHOWN]
    )
    left = max(0, len(breaches) - _RANGES_SHOWN)
    more = f"<p>and {left:,} more</p>" if left else ""
    return (
        '<section><h2>Checks</h2><div class="scroll"><table><thead><tr><th>Check</th>'
        "<th>Product</th><th>Found</th><th>Bound</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{more}</section>"
    )


def _runs(facts: LakeFacts) -> str:
    if facts.runs is None:
        return ""
    rows = "".join(
        f"<tr><td>{_text(run.flow)}</td><td>{_text(run.name)}</td><td>{_text(run.state)}</td>"
        f"<td>{_moment(run.began) if run.began else ''}</td>"
        f'<td class="n">{run.elapsed_s:,.0f} s</td></tr>'
        for run in facts.runs
    )
    if not rows:
        return '<section><h2>Last runs</h2><p class="calm">The Prefect API has none.</p></section>'
    return (
        '<section><h2>Last runs</h2><div class="scroll"><table><thead><tr><th>Flow</th><th>Run</th>'
        '<th>State</th><th>Began</th><th class="n">Took</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _foot(facts: LakeFacts) -> str:
    fetched = max((each.fetched_at for each in facts.products if each.fetched_at), default=None)
    youngest = f" The youngest part was fetched {_moment(fetched)}." if fetched else ""
    return (
        f"<footer><p>Made by headrace report from the names and footers of parts"
        f"{' and the unified table' if facts.unified else ''}.{youngest} Times are UTC. "
        "The watermark is the highest id below which nothing is missing, from the first id on.</p>"
        "</footer>"
    )


def _days(products: Iterable[ProductFacts]) -> tuple[date, date] | None:
    days = [day for each in products for day in (each.oldest, each.newest) if day]
    return (min(days).date(), max(days).date()) if days else None


def _unified(each: ProductFacts) -> str:
    if each.unified_rows is None:
        return ""
    behind = each.rows - each.unified_rows
    return "all" if behind == 0 else f"{-behind:+,}"


def _exchanges(products: Iterable[ProductFacts]) -> str:
    return ", ".join(sorted({each.exchange for each in products})) or "none"


def _age(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "none"
    seconds = (now - moment).total_seconds()
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit):,} {name}{'' if name == 'min' else 's'} ago"
    return f"{max(0, int(seconds)):,} s ago"


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _percent(share: float) -> str:
    """Never 100 % unless it is all."""
    return "100 %" if share == 1 else f"{min(share * 100, 99.99):.2f} %"


def _size(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1_000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1_000
    return f"{size_bytes:,.3g} TB"


def _text(value: object) -> str:
    """From outside, as text: no markup, and nothing that moves the cursor or the direction."""
    return escape(safe_text(str(value)))
