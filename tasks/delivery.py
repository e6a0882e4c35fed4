"""Send requests: one producer, the workers of the delivery, a line every five seconds."""

from __future__ import annotations

import logging
import threading

from prefect.client.schemas import State

from headrace.delivery.benchmark import Latencies
from headrace.delivery.model import Outcome
from headrace.delivery.report import SendReport, Sent, status_of
from headrace.delivery.sources import made_requests, read_requests, source_name
from headrace.errors import HeadraceError
from headrace.run.report import Row
from headrace.stopping import Stopped
from tasks.delivery_run import DeliveryRun
from tasks.kernel import ProgressArtifact, conclude, find_run, ui_url
from tasks.prefect_defaults import task

log = logging.getLogger(__name__)

LINE_INTERVAL_S = 5.0
#: Lines that are kept for the table of the UI: two hours.
_MOST_LINES = 1440
_TICK_S = 0.5


@task(name="deliver", description="Send what earlier runs left, then what the producer hands over.")
def deliver(run: str) -> None:
    """Deliver until every request has ended, or the run is to end."""
    sending = find_run(DeliveryRun, run)
    if sending.recovered.repeated or sending.recovered.buried:
        log.warning(
            "queue %s: a process was killed with %d requests under way: %d are sent again, %d may "
            "not be repeated and are in the graveyard",
            sending.request.queue,
            sending.recovered.repeated + sending.recovered.buried,
            sending.recovered.repeated,
            sending.recovered.buried,
            extra={"event": "unknown-outcome"},
        )
    over = threading.Event()
    producer = threading.Thread(
        target=_produce, args=(sending, over), name="delivery-producer", daemon=True
    )
    with ProgressArtifact(sending.progress, "keyed-requests-progress") as bar:
        producer.start()
        next_s = sending.progress.started + LINE_INTERVAL_S
        while not over.wait(_TICK_S):
            bar.tick()
            if sending.progress.clock() >= next_s:
                next_s += LINE_INTERVAL_S
                _write_line(sending)
    producer.join()
    _write_line(sending)


def _write_line(run: DeliveryRun) -> None:
    line = run.delivery.line()
    if len(run.lines) < _MOST_LINES:
        run.lines.append(line)
    run.say(str(line))
    log.info("%s", line, extra={"event": "benchmark", "facts": line.as_row()})


def _produce(run: DeliveryRun, over: threading.Event) -> None:
    try:
        with run.delivery:
            run.resumed = run.delivery.resume(run.journal.kept())
            _hand_over(run)
            run.delivery.drain()
    except Stopped:
        return
    except HeadraceError as error:
        run.ending.end(error)
    except Exception as error:
        log.exception("the producer failed")
        run.ending.end(HeadraceError(f"the producer failed: {error}"))
    finally:
        over.set()


def _hand_over(run: DeliveryRun) -> None:
    request, delivery = run.request, run.delivery
    ttl_s = request.ttl_s or None
    if request.source:
        name = source_name(request.source)
        done = run.journal.lines_of(name) if name else 0
        if done:
            log.warning("%s: going on after line %d, where a run ended", request.source, done)
        for lines, batch in read_requests(request.source, ttl_s=ttl_s, skip=done):
            delivery.submit(batch, source=name, lines=lines)
        if name:
            run.journal.finish_source(name)
    elif request.makes:
        for batch in made_requests(
            path=request.path,
            count=request.count,
            seconds=request.seconds,
            per_s=request.offer,
            ttl_s=ttl_s,
            stop=run.ending.stop,
        ):
            delivery.submit(batch)


def conclude_delivery(run: DeliveryRun) -> State[SendReport]:
    """Report what became of every request."""
    run.journal.check()
    benchmark, outcomes = run.delivery.benchmark, run.delivery.benchmark.outcomes
    sent = Sent(
        accepted=run.delivery.accepted,
        resumed=run.resumed,
        success=outcomes[Outcome.SUCCESS],
        expired=outcomes[Outcome.EXPIRED],
        graveyard=outcomes[Outcome.GRAVEYARD],
        unknown=run.recovered.buried,
        failures=benchmark.failures,
    )
    error = str(run.ending.cause or "")
    report = SendReport(
        run=run.id,
        status=status_of(sent, allow_expired=run.request.allow_expired, error=error),
        ui_url=ui_url(),
        costs=run.costs(),
        queue=run.request.queue,
        sent=sent,
        latency=_as_row(benchmark.latencies),
        age=_as_row(benchmark.ages),
        keys=tuple(run.client.by_key()),
        lines=tuple(run.lines),
        error=error,
        stopped=run.stop.is_set(),
    )
    return conclude(run, report)


def _as_row(latencies: Latencies) -> Row:
    shares = {"p50": 0.5, "p99": 0.99}
    found = {"mean": latencies.mean_s} | {
        name: latencies.percentile_s(share) for name, share in shares.items()
    }
    return {name: None if s is None else round(1e3 * s, 1) for name, s in found.items()}
