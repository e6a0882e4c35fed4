"""Alarms as automations of a Prefect server, known by their names.

Installing changes what an alarm watches for, and nothing that a person has decided since: whether
it is on, and where its message goes, unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
from prefect.automations import (
    AutomationCore,
    CallWebhook,
    DoNothing,
    EventTrigger,
    Posture,
    SendNotification,
)
from prefect.blocks.abstract import NotificationBlock, NotificationError
from prefect.blocks.core import Block
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import PrefectClient
from prefect.events.actions import ActionTypesOrUnknown
from prefect.events.schemas.automations import Automation
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from headrace.cli.alarms.catalogue import ALARMS, FLOWS, OLDER_EVENTS, Alarm, alarms
from headrace.cli.alarms.smtp import SmtpMail
from headrace.errors import ConfigurationError, PlaceError

#: The type of block that is called with a payload of ours; all others speak for themselves.
_WEBHOOK = "webhook"
_TAGS = ["headrace"]
_REFUSED = "the service cannot be reached, or refused it"
_OUR_FLOWS = {"prefect.resource.role": "flow", "prefect.resource.name": list(FLOWS)}


class NoSuchBlock(PlaceError, ConfigurationError):
    """The block that messages should go through is not there."""

    said = "--to {where}: the Prefect server has no such block"
    way_out = (
        "Make it with `headrace alarms slack`, `webhook` or `mail`, or in the UI; name it "
        "as TYPE/NAME, such as slack-webhook/ops"
    )


class MessageNotSent(PlaceError):
    """A block did not send a message."""

    said = "{where} did not send the message: {reason}"
    way_out = "Look at its address and at the way there; its command saves it again"


@dataclass(frozen=True, slots=True)
class InstalledAlarm:
    """An alarm as the server has it.

    Attributes:
        outcome: `created`, `updated`, or `found` where nothing was asked for.
        to: the blocks that its messages go through, as `TYPE/NAME`, and the kinds of what else it
            does: `do-nothing` shows it in the UI only.
    """

    key: str
    name: str
    enabled: bool
    outcome: str
    to: tuple[str, ...]
    description: str


async def install(
    client: PrefectClient,
    wanted: Sequence[Alarm],
    *,
    to: str | None = None,
    enabled: bool | None = None,
) -> list[InstalledAlarm]:
    """Create what is missing and bring the rest up to date.

    Args:
        to: the block that messages go through, as `TYPE/NAME`; None leaves it as it is, which for a
            new one means nowhere: it shows in the UI.
        enabled: switch them on or off; None leaves the switch as it is, and new ones off.

    Raises:
        NoSuchBlock: `to` names no block of this server.
    """
    # So that the UI has its form.
    await SmtpMail.aregister_type_and_schema(client=client)
    block_id = await _block_id(client, to) if to else None
    found = await _existing(client)
    done = []
    for alarm in wanted:
        before = found.get(alarm.name)
        on = enabled if enabled is not None else (before.enabled if before else False)
        actions = _actions(alarm, to, block_id)
        if to is None and before is not None:
            actions = list(before.actions)
        automation = _automation(alarm, actions, on)
        if before is None:
            await client.create_automation(automation)
        else:
            await client.update_automation(before.id, automation)
        outcome = "updated" if before else "created"
        done.append(_installed(alarm, automation, outcome, await _block_names(client, automation)))
    return done


async def install_missing(client: PrefectClient) -> list[InstalledAlarm]:
    """Create, switched off, what the server does not have yet.

    An alarm of an older version watches for events by names that they no longer have: it is
    brought up to date, and keeps its switch, its action and its wait. Nothing else is changed.
    """
    found = await _existing(client)
    outdated = {
        alarm.key: trigger.within
        for alarm in ALARMS
        if alarm.name in found
        and isinstance(trigger := found[alarm.name].trigger, EventTrigger)
        and (trigger.expect | trigger.after) & OLDER_EVENTS
    }
    return await install(
        client,
        [alarm for alarm in alarms(outdated) if alarm.name not in found or alarm.key in outdated],
    )


async def installed(client: PrefectClient) -> list[InstalledAlarm]:
    """The alarms that the server has."""
    found = await _existing(client)
    return [
        _installed(alarm, there, "found", await _block_names(client, there))
        for alarm in ALARMS
        if (there := found.get(alarm.name))
    ]


async def remove(client: PrefectClient) -> list[str]:
    """Delete all alarms; the names of those that were there."""
    found = await _existing(client)
    for automation in found.values():
        await client.delete_automation(automation.id)
    return sorted(found)


async def _existing(client: PrefectClient) -> dict[str, Automation]:
    """Ours among the server's automations; of one that is there twice, the extra one goes."""
    found: dict[str, Automation] = {}
    names = {alarm.name for alarm in ALARMS}
    for automation in await client.read_automations():
        if automation.name not in names:
            continue
        if automation.name in found:
            await client.delete_automation(automation.id)
        else:
            found[automation.name] = automation
    return found


def _automation(alarm: Alarm, actions: list[ActionTypesOrUnknown], enabled: bool) -> AutomationCore:
    return AutomationCore(
        name=alarm.name,
        description=alarm.description,
        tags=_TAGS,
        enabled=enabled,
        trigger=EventTrigger(
            expect=set(alarm.expect),
            after=set(alarm.after),
            match_related=_OUR_FLOWS if alarm.of_our_flows else {},
            for_each=set(alarm.per),
            # One that goes off at once then keeps quiet about the same thing for `within`.
            posture=Posture.Proactive if alarm.after else Posture.Reactive,
            threshold=1,
            within=alarm.within,
        ),
        actions=actions,
    )


def _actions(alarm: Alarm, to: str | None, block_id: UUID | None) -> list[ActionTypesOrUnknown]:
    if to is None or block_id is None:
        return [DoNothing()]
    if to.partition("/")[0] == _WEBHOOK:
        return [
            CallWebhook.model_validate({"block_document_id": block_id, "payload": _payload(alarm)})
        ]
    return [
        SendNotification.model_validate(
            {"block_document_id": block_id, "subject": alarm.subject, "body": alarm.body}
        )
    ]


def _payload(alarm: Alarm) -> str:
    """A JSON document; chat programs show its `text`. `tojson` quotes what comes from outside."""
    return (
        f"{{% set subject %}}{alarm.subject}{{% endset %}}"
        f"{{% set text %}}{alarm.body}{{% endset %}}"
        f'{{"alarm": "{alarm.key}", "subject": {{{{ subject | tojson }}}}, '
        '"text": {{ text | tojson }}, "event": {{ event.event | tojson }}, '
        '"occurred": {{ event.occurred | string | tojson }}, '
        '"run": {% if flow_run %}{"id": {{ flow_run.id | string | tojson }}, '
        '"name": {{ flow_run.name | tojson }}, "url": {{ flow_run | ui_url | tojson }}}'
        "{% else %}null{% endif %}, "
        '"facts": {{ event.payload | tojson }}}'
    )


async def _block_id(client: PrefectClient, reference: str) -> UUID:
    slug, _, name = reference.partition("/")
    try:
        document = await client.read_block_document_by_name(name, slug, include_secrets=False)
    except (ObjectNotFound, PrefectHTTPStatusError) as error:
        raise NoSuchBlock(reference) from error
    return document.id


async def _block_names(client: PrefectClient, automation: AutomationCore) -> tuple[str, ...]:
    """Where the messages of an alarm go, as a user names it."""
    return tuple([await _goes_to(client, action) for action in automation.actions])


async def _goes_to(client: PrefectClient, action: ActionTypesOrUnknown) -> str:
    block_id = getattr(action, "block_document_id", None)
    if block_id is None:
        return action.type
    try:
        document = await client.read_block_document(block_id, include_secrets=False)
    except ObjectNotFound:
        return f"{action.type} (its block is gone)"
    slug = document.block_type.slug if document.block_type else action.type
    return f"{slug}/{document.name}"


async def try_out(client: PrefectClient, to: str) -> None:
    """Send a message of no consequence through a block, from this process.

    Args:
        to: the block, as `TYPE/NAME`.

    Raises:
        NoSuchBlock: `to` names no block of this server.
        MessageNotSent: the block could not send it.
    """
    await SmtpMail.aregister_type_and_schema(client=client)
    await _block_id(client, to)
    subject, text = "headrace: a test", "This is a test of headrace: alarms arrive here."
    try:
        block: Any = await Block.aload(to, client=client)
        if isinstance(block, Webhook):
            payload = {"alarm": "test", "subject": subject, "text": text, "event": "headrace.test"}
            answer = await block.call({**payload, "occurred": None, "run": None, "facts": {}})
            if answer.is_error:
                raise MessageNotSent(to, f"status {answer.status_code}")
        elif isinstance(block, NotificationBlock):
            with block.raise_on_failure():
                await block.notify(body=text, subject=subject)
        else:
            raise ConfigurationError(
                f"--to {to}: this kind of block sends no messages", hint="Name a webhook, or Slack"
            )
    except NotificationError as error:
        # Mail says why. What others have logged may hold their address, which is a secret.
        raise MessageNotSent(to, str(error) if isinstance(block, SmtpMail) else _REFUSED) from error
    except httpx.HTTPError as error:
        raise MessageNotSent(to, str(error) or type(error).__name__) from error


def _installed(
    alarm: Alarm, automation: AutomationCore, outcome: str, to: tuple[str, ...]
) -> InstalledAlarm:
    return InstalledAlarm(
        key=alarm.key,
        name=alarm.name,
        enabled=automation.enabled,
        outcome=outcome,
        to=to,
        description=automation.description,
    )
