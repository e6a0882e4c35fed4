"""A validation of a Looker's content: what Looker says itself, then the queries, some at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from prefect.client.schemas import State
from prefect.states import Completed, Failed

from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.looker.client import LookerClient
from headrace.looker.extract.context import resolve_folders
from headrace.looker.validate.report import Broken, ValidateReport
from headrace.looker.validate.request import ValidateRequest
from headrace.looker.validate.validator import Queries, Query, run_query, validation
from headrace.quota import OutageError
from headrace.run.progress import StepProgress
from headrace.run.report import Status
from headrace.stopping import Ending, Stopped
from tasks import kernel
from tasks.bounded_map import map_in_waves, thread_pool
from tasks.events import emit_if_broken
from tasks.kernel import ProgressArtifact, QuotaRun, announce, find_run, opening, registered
from tasks.looker_run import connect, connection_of
from tasks.prefect_defaults import task

#: Queries of one task run.
_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Findings:
    """What one task found.

    Args:
        validated: how much Looker's validation looked at, by kind.
        queries: that were run.
        error: why a task found out nothing.
    """

    broken: tuple[Broken, ...] = ()
    unsure: tuple[str, ...] = ()
    validated: dict[str, int] = field(default_factory=dict)
    queries: int = 0
    error: str = ""


@dataclass(kw_only=True)
class Validating(QuotaRun[ValidateRequest]):
    """One validation. Made by `open_validation`, closed with it."""

    client: LookerClient
    folders: Sequence[str]
    ending: Ending
    progress: StepProgress
    bar: ProgressArtifact
    queries: list[Query] = field(default_factory=list)


@contextmanager
def open_validation(request: ValidateRequest) -> Iterator[Validating]:
    """Everything that a validation needs, checked before any work is spent.

    Raises:
        ConfigurationError: something cannot be used: the address, the credentials, a folder.
        ConnectionFailed: nothing listens at the address.
    """
    connection = connection_of(request)
    progress = StepProgress("steps", 1)
    with opening() as begun, ProgressArtifact(progress) as bar:
        ending = Ending(begun.stop)
        quota, gate, client = connect(
            request, connection, begun, workers=request.workers, stop=ending.stop
        )
        run = Validating(
            id=begun.run_id,
            request=request,
            settings=begun.settings,
            stop=begun.stop,
            client=client,
            gate=gate,
            rates=quota.rates,
            per_s=gate.per_s,
            folders=resolve_folders(client, request.folder_ids, recursive=request.recursive),
            ending=ending,
            progress=progress,
            bar=bar,
        )
        announce(run)
        with registered(run):
            yield run


@task(
    name="content-validation",
    task_run_name="content validation",
    description="What Looker's own content validation says.",
)
def validate_content(run: str) -> State[Findings]:
    """Ask Looker; what goes wrong is in the findings, never raised."""
    validating = find_run(Validating, run)
    validated: dict[str, int] = {}
    broken: list[Broken] = []
    try:
        validated, broken = validation(
            validating.client, validating.folders, validating.request.projects
        )
        if validating.request.run_queries:
            queries = Queries(validating.client, validating.folders, validating.ending.stop)
            validating.queries = queries.all()
            broken += queries.broken
    except HeadraceError as error:
        found = Findings(tuple(broken), validated=validated, error=str(error))
        return Failed(message=str(error), data=found)
    finally:
        validating.progress.step()
    found = Findings(tuple(broken), validated=validated)
    if broken:
        return Failed(name="Partial", message=counted(len(broken), "error"), data=found)
    return Completed(message="all content runs", data=found)


@task(
    name="queries",
    task_run_name="queries {first}-{last}",
    description="Run some queries of looks and dashboards, with few rows.",
)
def run_some(run: str, first: int, last: int) -> State[Findings]:
    """Run the queries from `first` to `last`; a broken one is a finding, never raised."""
    validating = find_run(Validating, run)
    broken: list[Broken] = []
    unsure: list[str] = []
    ran = 0
    for query in validating.queries[first : last + 1]:
        try:
            validating.ending.check()
            outcome = run_query(validating.client, query, row_limit=validating.request.row_limit)
        except OutageError as error:
            validating.ending.end(error)
            break
        except (Stopped, HeadraceError):
            break  # the run ends, and says why
        ran += 1
        broken += outcome.broken
        unsure += [outcome.unsure] if outcome.unsure else []
        validating.progress.step()
    found = Findings(tuple(broken), tuple(unsure), queries=ran)
    if broken or unsure:
        message = (broken[0].described() if broken else unsure[0])[:300]
        return Failed(name="Partial", message=message, data=found)
    return Completed(message=f"{counted(ran, 'query', 'queries')} run", data=found)


def validated_content(validating: Validating) -> Findings:
    """What Looker's own validation says."""
    state = validate_content(validating.id, return_state=True)
    return _found(state.result(raise_on_failure=False))


def run_queries(validating: Validating) -> list[Findings]:
    """What comes of the queries that the validation listed, `workers` at once."""
    found: list[Findings] = []
    count, width = len(validating.queries), validating.request.workers
    validating.progress.parts += count
    with thread_pool(width) as pool:
        for ended in map_in_waves(
            pool,
            run_some,
            iter(range(0, count, _AT_ONCE)),
            as_parameters=lambda first: {"first": first, "last": min(first + _AT_ONCE, count) - 1},
            fixed={"run": validating.id},
            width=width,
            stop=validating.ending.stop,
        ):
            validating.bar.tick()
            if ended is not None:
                found.append(_found(ended.outcome))
    return found


def _found(outcome: object) -> Findings:
    if isinstance(outcome, Findings):
        return outcome
    return Findings(error=f"a task run crashed ({outcome!r})")


def conclude_validation(
    validating: Validating, validated: Findings, others: Sequence[Findings]
) -> State[ValidateReport]:
    """Sum up what was found."""
    parts = (validated, *others)
    errors = [each.error for each in parts if each.error]
    if validating.ending.cause is not None:
        errors.insert(0, str(validating.ending.cause))
    incomplete = errors or any(each.broken or each.unsure for each in parts)
    report = ValidateReport(
        run=validating.id,
        status=(
            Status.FAILED
            if validated.error and not validated.validated
            else Status.PARTIAL
            if incomplete
            else Status.DONE
        ),
        ui_url=kernel.ui_url(),
        source=validating.client.source,
        costs=validating.costs(logins=validating.client.logins),
        broken=tuple(each for part in parts for each in part.broken),
        unsure=tuple(each for part in parts for each in part.unsure),
        validated=validated.validated,
        queries=sum(part.queries for part in parts),
        stopped=validating.stop.is_set(),
        error=errors[0] if errors else "",
    )
    emit_if_broken(report)
    return kernel.conclude(validating, report)
