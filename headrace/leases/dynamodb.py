"""Leases of many machines, in one DynamoDB table.

One item per name, replaced by conditional writes and read consistently. The table's own
time-to-live is not used: it deletes hours late or never, and a deleted item would lose its token.

Which refusals pass by themselves, and what the others mean, is in the DynamoDB developer guide,
"Error handling with DynamoDB", and in botocore's exceptions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own, wider than the builtin
    HTTPClientError,
)
from pydantic import ValidationError
from tenacity import Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from headrace.leases.exceptions import (
    DamagedLeases,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.model import Holder, Row
from headrace.leases.store import LeaseStore, PerProcess
from headrace.leases.this_machine import THIS_MACHINE, Machine
from headrace.stopping import STOP

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import CreateTableOutputTypeDef, ScanOutputTypeDef


_THROTTLED = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "TransactionConflictException",
}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}


def code_of(error: ClientError) -> str:
    """DynamoDB's name for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: throttling, 5xx, broken or slow connections."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return code_of(error) in _THROTTLED or status >= 500
    return isinstance(error, ConnectionError | HTTPClientError)


def permanent(
    error: ClientError | BotoCoreError, *, table: str, operation: str
) -> LeaseStoreMisconfigured:
    """The refusal in our words: what was refused, on which table, and what mends it."""
    action = f"dynamodb:{operation}"
    reason = str(error)
    if not isinstance(error, ClientError):
        hint = "Give credentials and a region (AWS_PROFILE, AWS_REGION, or a role)"
    elif code_of(error) in _DENIED:
        hint = f"Use credentials that are valid and allow {action} on this table"
    elif code_of(error) == "ResourceNotFoundException":
        hint = "Create the table (partition key `lease`, a string), or correct its name and region"
    else:
        hint = "The table needs a partition key `lease` (a string) and no sort key"
    return LeaseStoreMisconfigured(f"table {table}", action, reason, hint=hint)


_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Item = dict[str, Any]

_SCHEMA_VERSION = 1
_KEY = "lease"

_CONDITION_FAILED = "ConditionalCheckFailedException"
_TABLE_EXISTS = "ResourceInUseException"
_NO_TABLE = "ResourceNotFoundException"

# An answer is worth waiting for only well within the life of a lease: at most about 15 s in all.
_ATTEMPTS = 5
_CONFIG = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
_PAUSE = wait_random_exponential(multiplier=0.1, max=1.0)


def _pause(seconds: float) -> None:
    """Wait, but no longer once this process is asked to stop: what is tried then is tried now."""
    STOP.wait(seconds)


class DynamoLeases(LeaseStore):
    """`LeaseStore` in a DynamoDB table with the partition key `lease` (string) and no sort key.

    Needs `dynamodb:GetItem`, `PutItem` and `Scan` on the table; with `create` also `DescribeTable`
    and, if it is missing, `CreateTable`. Throttling, 5xx and broken connections are tried again
    for some seconds.

    Args:
        table: name of the table.
        endpoint_url: another server than AWS's own.
        region: AWS region; from the environment or profile if None.
        create: make the table (on-demand billing) if it is missing.
        max_clock_skew_s: how far the clocks of the machines may be apart. A machine whose clock
            differs by more from DynamoDB's logs a warning.
        sleep: pauses between attempts, in seconds.
    """

    def __init__(
        self,
        table: str,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        create: bool = False,
        max_clock_skew_s: float = 5.0,
        machine: Machine = THIS_MACHINE,
        sleep: Callable[[float], None] = _pause,
    ) -> None:
        super().__init__(machine=machine, max_clock_skew_s=max_clock_skew_s)
        self.table = table
        self._endpoint_url = endpoint_url
        self._region = region
        self._sleep = sleep
        self._skew_reported = False
        self._connection = PerProcess(self._connected)
        if create:
            self._create()

    @property
    def where(self) -> str:
        """Name of the table."""
        return f"table {self.table}"

    def _read(self, name: str) -> Row | None:
        answer = self._ask(
            "GetItem",
            lambda db: db.get_item(
                TableName=self.table, Key={_KEY: {"S": name}}, ConsistentRead=True
            ),
        )
        self._watch_clock(answer["ResponseMetadata"]["HTTPHeaders"])
        item = answer.get("Item")
        return self._parsed(item) if item else None

    def _read_all(self) -> Iterable[Row]:
        start: _Item = {}
        while True:
            page = self._ask("Scan", partial(self._scan, start))
            yield from map(self._parsed, page["Items"])
            key = page.get("LastEvaluatedKey")
            if not key:
                return
            start = {"ExclusiveStartKey": key}

    def _scan(self, start: _Item, db: DynamoDBClient) -> ScanOutputTypeDef:
        return db.scan(TableName=self.table, ConsistentRead=True, **start)

    def _swap(self, seen: Row | None, new: Row) -> bool:
        item: _Item = {
            _KEY: {"S": new.name},
            "token": {"N": str(new.token)},
            "stamp": {"S": new.stamp},
            "schema_version": {"N": str(_SCHEMA_VERSION)},
        }
        if new.holder:
            item["holder"] = {"S": new.holder.model_dump_json()}
        condition: _Item = (
            {
                "ConditionExpression": "stamp = :seen",
                "ExpressionAttributeValues": {":seen": {"S": seen.stamp}},
            }
            if seen
            else {"ConditionExpression": f"attribute_not_exists({_KEY})"}
        )
        try:
            self._ask(
                "PutItem",
                lambda db: db.put_item(TableName=self.table, Item=item, **condition),
                expected=_CONDITION_FAILED,
            )
        except ClientError:
            # Perhaps it was our own write, stored although its answer was lost: the caller looks.
            return False
        return True

    def _remove(self, seen: Row) -> None:
        # Another may have taken its place: that one stays.
        with suppress(ClientError):
            self._ask(
                "DeleteItem",
                lambda db: db.delete_item(
                    TableName=self.table,
                    Key={_KEY: {"S": seen.name}},
                    ConditionExpression="stamp = :seen",
                    ExpressionAttributeValues={":seen": {"S": seen.stamp}},
                ),
                expected=_CONDITION_FAILED,
            )

    def _create(self) -> None:
        """Make the table unless it is there, and wait until it can be used."""
        if self._status() is None:
            # Another process may be making it at this moment.
            with suppress(ClientError):
                self._ask("CreateTable", self._create_table, expected=_TABLE_EXISTS)
        for _ in range(60):
            if self._status() == "ACTIVE":
                return
            self._sleep(1.0)
            STOP.check()
        raise LeaseStoreUnavailable(self.where, "it was created, but is not active after a minute")

    def _create_table(self, db: DynamoDBClient) -> CreateTableOutputTypeDef:
        return db.create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def _status(self) -> str | None:
        try:
            described = self._ask(
                "DescribeTable",
                lambda db: db.describe_table(TableName=self.table),
                expected=_NO_TABLE,
            )
        except ClientError:
            return None
        return described["Table"]["TableStatus"]

    def _ask(
        self, operation: str, call: Callable[[DynamoDBClient], _T], *, expected: str = ""
    ) -> _T:
        """One request, tried again while that may help.

        Raises:
            LeaseStoreUnavailable: it still failed after the last attempt.
            LeaseStoreMisconfigured: trying again cannot help.
            ClientError: the `expected` one, and no other.
        """
        attempts = Retrying(
            retry=retry_if_exception(is_transient),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=_PAUSE,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return attempts(lambda: call(self._client()))
        except (ClientError, BotoCoreError) as error:
            if is_transient(error):
                reason = f"{operation} failed {_ATTEMPTS} times, at last with: {error}"
                raise LeaseStoreUnavailable(self.where, reason) from error
            if isinstance(error, ClientError) and code_of(error) == expected:
                raise
            raise permanent(error, table=self.table, operation=operation) from error

    def _client(self) -> DynamoDBClient:
        return self._connection.get()

    def _connected(self) -> DynamoDBClient:
        # A session of our own, since boto3's shared one may not be used by two threads at once.
        return boto3.session.Session().client(
            "dynamodb", endpoint_url=self._endpoint_url, region_name=self._region, config=_CONFIG
        )

    def _watch_clock(self, headers: Mapping[str, str]) -> None:
        """Say once if this machine's clock is further off than the leases allow for."""
        if self._skew_reported or "date" not in headers:
            return
        ahead = self._machine.now() - parsedate_to_datetime(headers["date"])
        # The header counts whole seconds and has travelled, hence a second of grace.
        if abs(ahead.total_seconds()) > self._max_clock_skew.total_seconds() + 1:
            self._skew_reported = True
            _log.warning(
                "the clock of this machine is %+.0f s from DynamoDB's, leases allow for %.0f s: "
                "set it by NTP, or runs on two machines may work on one product at once "
                "(they cannot commit at once)",
                ahead.total_seconds(),
                self._max_clock_skew.total_seconds(),
            )

    def _parsed(self, item: Mapping[str, Any]) -> Row:
        name = item[_KEY]["S"]
        where = f"{self.where}, item {name}"
        try:
            version = int(item["schema_version"]["N"])
            if version > _SCHEMA_VERSION:
                raise NewerLeases(where, version, _SCHEMA_VERSION)
            text = item.get("holder", {}).get("S")
            holder = Holder.model_validate_json(text) if text is not None else None
            token, stamp = int(item["token"]["N"]), item["stamp"]["S"]
        except (KeyError, ValueError, ValidationError) as error:
            hint = "Make sure that no run is working under this name, then delete the item"
            raise DamagedLeases(where, f"it does not read ({error!r})", hint=hint) from error
        return Row(name=name, token=token, stamp=stamp, holder=holder)
