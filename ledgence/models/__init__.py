"""The ledger's tables. A task's state is which of its rows exists."""

from ledgence.models.action import OperatorAction, OperatorActionTarget
from ledgence.models.attempt import Attempt
from ledgence.models.delivery import DeliveryEvent, DeliveryIntent
from ledgence.models.lease import Lease
from ledgence.models.queue import Policy, Program, Queue
from ledgence.models.session import Channel, WorkerSession
from ledgence.models.task import State, Task

__all__ = [
    "Attempt",
    "Channel",
    "DeliveryEvent",
    "DeliveryIntent",
    "Lease",
    "OperatorAction",
    "OperatorActionTarget",
    "Policy",
    "Program",
    "Queue",
    "State",
    "Task",
    "WorkerSession",
]
