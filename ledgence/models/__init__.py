"""The ledger's tables. A task's state is which of its rows exists."""

from ledgence.models.action import OperatorAction, OperatorActionTarget
from ledgence.models.api_token import ApiToken, Role
from ledgence.models.attempt import Attempt
from ledgence.models.delivery import DeliveryEvent, DeliveryIntent
from ledgence.models.housekeeping import HousekeepingTurn
from ledgence.models.lease import Lease
from ledgence.models.publisher import Publisher
from ledgence.models.quarantine import QuarantinedMessage
from ledgence.models.queue import Policy, Program, Queue
from ledgence.models.rollup import Rollup
from ledgence.models.session import Channel, WorkerSession
from ledgence.models.task import State, Task

__all__ = [
    "ApiToken",
    "Attempt",
    "Channel",
    "DeliveryEvent",
    "DeliveryIntent",
    "HousekeepingTurn",
    "Lease",
    "OperatorAction",
    "OperatorActionTarget",
    "Policy",
    "Program",
    "Publisher",
    "QuarantinedMessage",
    "Queue",
    "Role",
    "Rollup",
    "State",
    "Task",
    "WorkerSession",
]
