"""What there is to be alarmed about, in terms of the events that runs emit (docs/alarms.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.amounts import counted

#: The server looks for what did not happen in steps of some seconds, and takes nothing shorter.
SHORTEST = timedelta(seconds=10)

BREAKER_OPEN = "breaker-open"
DATA_OLD = "data-old"
GAP_FOUND = "gap-found"
CHECK_FAILED = "check-failed"
CHAIN_BROKEN = "chain-broken"
RUN_FAILED = "run-failed"
RUN_PARTIAL = "run-partial"
NOT_SERVED = "not-served"
NOT_STARTED = "not-started"
THROTTLED = "throttled"
EXTRACTION_INCOMPLETE = "extraction-incomplete"
CONTENT_BROKEN = "content-broken"

#: Names by which alarms of older versions watch for events.
OLDER_EVENTS = frozenset(
    {
        "headrace.audit.gap",
        "headrace.breaker.closed",
        "headrace.breaker.opened",
        "headrace.up-to-date",
    }
)

#: The flows whose runs are ours; a server may run others.
FLOWS = (
    "audit",
    "backfill",
    "check",
    "ingest",
    "keyed-requests",
    "looker",
    "looker-validate",
    "pull-part",
    "sot-anchor",
    "sot-migrate",
    "sot-recover",
    "sot-verify",
    "sot-write",
    "transform",
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm.

    Attributes:
        key: how options name it.
        name: of the automation.
        description: when it goes off, for people.
        expect: the events it goes off at; with `after`, those whose absence it goes off at.
        after: events that begin the wait; empty for an alarm that goes off at once.
        within: how long the wait is.
        subject, body: of the message, as Jinja templates over the event.
        per: the labels that group events; each value has its own wait.
        of_our_flows: whether only events about runs of `FLOWS` count.
    """

    key: str
    name: str
    description: str
    expect: frozenset[str]
    subject: str
    body: str
    after: frozenset[str] = frozenset()
    within: timedelta = timedelta(hours=1)
    per: tuple[str, ...] = ("prefect.resource.id",)
    of_our_flows: bool = False


#: No event has it, so that all events are one group. (Without any label, Prefect waits from the
#: start of the server on, whether or not something began the wait.)
_NO_LABEL = "headrace.all"
_SUBJECT_NAME = "{{ event.resource['prefect.resource.name'] }}"
_RUN = "{{ flow.name }} ({{ flow_run.name }})"
#: Where the UI shows the run.
_LINK = "{{ flow_run | ui_url }}"
#: What a run says of its end, as a sentence.
_STATE_MESSAGE = (
    "{% set said = event.resource['prefect.state-message'] %}"
    "{{ said }}{{ '' if said.endswith(('.', '?', '!')) else '.' }}"
)


def _number(fact: str) -> str:
    """A number of the event's payload, as reports write it: 1,680,000."""
    value = f"event.payload['{fact}']"
    return f"{{{{ '{{:,}}'.format({value}) if {value} is number else {value} }}}}"


def _counted(fact: str, one: str, several: str = "") -> str:
    """The same with its noun; see `headrace.amounts.counted`."""
    several = several or counted(2, one).removeprefix("2 ")
    return f"{_number(fact)} {{{{ '{one}' if event.payload['{fact}'] == 1 else '{several}' }}}}"


ALARMS = (
    Alarm(
        key=BREAKER_OPEN,
        name="headrace: breaker open",
        description="The circuit breaker of an exchange opened and did not close for {within}.",
        after=frozenset({"headrace.source.breaker-opened"}),
        expect=frozenset({"headrace.source.breaker-closed"}),
        within=timedelta(minutes=15),
        subject=f"headrace: {_SUBJECT_NAME} has been failing for {{within}}",
        body=(
            f"The circuit breaker of {_SUBJECT_NAME} opened at {{{{ event.occurred }}}} and has "
            "not closed for {within}. Runs wait for it, then fail; nothing is lost. "
            "Look: headrace breaker status; headrace quota status"
        ),
    ),
    Alarm(
        key=DATA_OLD,
        name="headrace: data old",
        description="No run has brought a product up to its newest trade for {within}.",
        after=frozenset({"headrace.product.up-to-date"}),
        expect=frozenset({"headrace.product.up-to-date"}),
        subject=f"headrace: {_SUBJECT_NAME} is older than {{within}}",
        body=(
            f"{_SUBJECT_NAME} was last complete up to its newest trade at {{{{ event.occurred }}}} "
            f"(trade {_number('newest')}). Since then no run has brought it up to date. "
            "Look at the runs of ingest, and: headrace status; headrace lease list"
        ),
    ),
    Alarm(
        key=GAP_FOUND,
        name="headrace: gap found",
        description="An audit found trades missing in the lake; once per product in {within}.",
        expect=frozenset({"headrace.product.incomplete"}),
        subject=f"headrace: {_SUBJECT_NAME} has gaps",
        body=(
            f"An audit of {_SUBJECT_NAME} found {_counted('missing_ids', 'id')} missing in "
            f"{_counted('ranges', 'range')}, the first from {_number('from_id')} to "
            f"{_number('to_id')}. "
            f"Mend it: headrace audit {_SUBJECT_NAME} --heal"
        ),
    ),
    Alarm(
        key=CHECK_FAILED,
        name="headrace: check failed",
        description="A check found trades that breach a bound; once per product and kind of breach "
        "in {within}.",
        expect=frozenset({"headrace.product.check-failed"}),
        subject=f"headrace: {_SUBJECT_NAME}: {{{{ event.payload['check'] }}}}",
        body=(
            f"A check of {_SUBJECT_NAME} found ({{{{ event.payload['check'] }}}}): "
            "{{ event.payload['message'] }}. The bound is {{ event.payload['bound'] }}. "
            f"All of it: headrace check {_SUBJECT_NAME}"
        ),
        per=("prefect.resource.id", "headrace.check"),
    ),
    Alarm(
        key=CHAIN_BROKEN,
        name="headrace: chain broken",
        description="What a log holds is not what was written to it; once per log in {within}.",
        expect=frozenset({"headrace.log.chain-broken"}),
        subject=f"headrace: the log in {_SUBJECT_NAME} is damaged",
        body=(
            f"The log in {_SUBJECT_NAME}: {{{{ event.payload['problem'] }}}}. "
            f"All of it: headrace sot verify --store {_SUBJECT_NAME}"
        ),
    ),
    Alarm(
        key=RUN_FAILED,
        name="headrace: run failed",
        description="A run failed or its process died; once per flow in {within}.",
        expect=frozenset({"prefect.flow-run.Failed", "prefect.flow-run.Crashed"}),
        subject="headrace: {{ flow.name }} failed",
        body=f"{_RUN} failed: {_STATE_MESSAGE} {_LINK}",
        per=("related:flow:prefect.resource.id",),
        of_our_flows=True,
    ),
    Alarm(
        key=RUN_PARTIAL,
        name="headrace: run partial",
        description="A run did part of its work, or found something missing or wrong; once per "
        "flow in {within}.",
        expect=frozenset({"prefect.flow-run.Partial"}),
        subject="headrace: {{ flow.name }} is partial",
        body=(
            f"{_RUN} ended, and not all is well: {_STATE_MESSAGE} What is missing or wrong, and "
            f"what to do about it: {_LINK}"
        ),
        per=("related:flow:prefect.resource.id",),
        of_our_flows=True,
    ),
    Alarm(
        key=NOT_SERVED,
        name="headrace: not served",
        description="What starts runs is gone or stopped, and was not back within {within}.",
        after=frozenset({"prefect.deployment.not-ready"}),
        expect=frozenset({"prefect.deployment.ready"}),
        within=timedelta(minutes=15),
        subject="headrace: schedules do not run",
        body=(
            "Nothing takes up runs of {{ flow.name }}/{{ deployment.name }}, and perhaps of "
            "others, since {{ event.occurred }}: what is due by a schedule waits. "
            "Look: headrace status; mend it: headrace up"
        ),
        per=(_NO_LABEL,),
        of_our_flows=True,
    ),
    Alarm(
        key=NOT_STARTED,
        name="headrace: not started",
        description="A run was due by its schedule, and no run of its deployment began for "
        "{within}. Prefect may say so 15 minutes later.",
        after=frozenset({"prefect.flow-run.Late"}),
        # One that is cancelled was taken up: another run of its deployment is under way.
        expect=frozenset(
            f"prefect.flow-run.{state}" for state in ("Pending", "Running", "Cancelled")
        ),
        within=timedelta(minutes=15),
        subject="headrace: {{ flow.name }}/{{ deployment.name }} was due and did not start",
        body=(
            "{{ flow.name }}/{{ deployment.name }} was due at "
            "{{ flow_run.expected_start_time }}, and none of its runs had begun {within} later. "
            "Look: headrace status; mend it: headrace up"
        ),
        per=("related:deployment:prefect.resource.id",),
        of_our_flows=True,
    ),
    Alarm(
        key=THROTTLED,
        name="headrace: throttled",
        description="Answers 429 slowed a quota down, and it was not at full speed for {within}.",
        after=frozenset({"headrace.source.slowed-down"}),
        expect=frozenset({"headrace.source.full-speed"}),
        subject=f"headrace: {_SUBJECT_NAME} has been throttling for {{within}}",
        body=(
            f"The quota of {_SUBJECT_NAME} was slowed down to {{{{ event.payload['percent'] }}}} % "
            f"at {{{{ event.occurred }}}}, after {_counted('throttled', 'answer')} 429, and no "
            "run has seen it at full speed for {within}. Others may use the same quota, or its "
            "rates are too high. Look: headrace quota status"
        ),
    ),
    Alarm(
        key=EXTRACTION_INCOMPLETE,
        name="headrace: extraction incomplete",
        description="Content of a Looker did not come into the vault; once per Looker in {within}.",
        expect=frozenset({"headrace.looker.extraction-incomplete"}),
        subject=f"headrace: content of {_SUBJECT_NAME} is missing",
        body=(
            f"Of {_SUBJECT_NAME}, {_counted('failed_items', 'item')} and "
            f"{_counted('missing_ranges', 'range')} of "
            "{{ event.payload['types'] | join(', ') }} did not come: "
            "{{ event.payload['error'] }}. The next run fetches them: headrace looker extract"
        ),
    ),
    Alarm(
        key=CONTENT_BROKEN,
        name="headrace: content broken",
        description="Content of a Looker does not run any more; once per Looker in {within}.",
        expect=frozenset({"headrace.looker.content-broken"}),
        subject=f"headrace: content of {_SUBJECT_NAME} does not run",
        body=(
            f"A validation of {_SUBJECT_NAME} found {_counted('errors', 'error')}, "
            "the first: {{ event.payload['first'] }}. All of them: headrace looker validate"
        ),
    ),
)


def alarms(waits: Mapping[str, timedelta] | None = None) -> tuple[Alarm, ...]:
    """All alarms, some of them with another wait, their texts complete."""
    changed = waits or {}
    return tuple(
        _worded(replace(each, within=changed.get(each.key, each.within))) for each in ALARMS
    )


def _worded(alarm: Alarm) -> Alarm:
    said = in_words(alarm.within)
    return replace(
        alarm,
        description=alarm.description.replace("{within}", said),
        subject=alarm.subject.replace("{within}", said),
        body=alarm.body.replace("{within}", said),
    )


def in_words(length: timedelta) -> str:
    """A length of time for people: 15 minutes, 1 hour, 90 seconds."""
    seconds = round(length.total_seconds())
    for unit, name in ((3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            return counted(seconds // unit, name)
    raise AssertionError("every number is divisible by one")
