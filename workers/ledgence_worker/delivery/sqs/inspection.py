"""The check of a queue before it is used: one question, which proves endpoint, credentials, rights and existence."""

import json
from collections.abc import Mapping
from typing import Any, Final

from ledgence_worker.delivery.ports import ADDRESS_BYTES, Inspection
from ledgence_worker.delivery.reference import REFERENCE_BYTES
from ledgence_worker.delivery.sqs.clients import Client
from ledgence_worker.delivery.sqs.faults import Outcome, fault_of
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable

#: A message that a few crashing workers received is still good.
_RECEIVE_COUNT_MIN: Final = 3
#: The longest time until a publication is repeated.
_RETENTION_SECONDS_MIN: Final = 3600


def inspect_queue(client: Client, options: SqsOptions) -> Inspection:
    """Check that a queue can be used. Raises BrokerRefused with the reason, or BrokerUnavailable.

    An attribute that the broker does not tell is unknown, which is no error: some tell few.
    """
    try:
        reply = client.get_queue_attributes(QueueUrl=options.queue_url, AttributeNames=["All"])
    except Exception as error:
        fault = fault_of(error, client=client, options=options, action="GetQueueAttributes")
        is_final = fault.outcome in (Outcome.FORBIDDEN, Outcome.REFUSED)
        raise (BrokerRefused if is_final else BrokerUnavailable)(fault.text) from error
    attributes = reply.get("Attributes")
    if not attributes:
        raise BrokerUnavailable(f"{client.meta.endpoint_url} told no attribute of {options.queue_url}: is it SQS?")
    _check(attributes, options)
    return Inspection(address=_address(attributes, options), warnings=tuple(_warnings(attributes, options)))


def _check(attributes: Mapping[str, Any], options: SqsOptions) -> None:
    if str(attributes.get("FifoQueue")).lower() == "true":
        raise BrokerRefused(f"{options.queue_url} is a FIFO queue: a Standard queue is needed.")
    delay = _number(attributes.get("DelaySeconds"))
    if delay:
        raise BrokerRefused(f"{options.queue_url} delays each message by {delay} s: set its DelaySeconds to 0.")
    size = _number(attributes.get("MaximumMessageSize"))
    if size is not None and size < REFERENCE_BYTES:
        text = f"{options.queue_url} takes messages of {size} bytes at most"
        raise BrokerRefused(f"{text}: set its MaximumMessageSize to {REFERENCE_BYTES} or more.")


def _warnings(attributes: Mapping[str, Any], options: SqsOptions) -> list[str]:
    warnings = []
    count = _receive_count(attributes.get("RedrivePolicy"))
    if "RedrivePolicy" not in attributes:
        warnings.append(f"{options.queue_url} has no RedrivePolicy: what no worker can handle comes back for ever.")
    elif count is not None and count < _RECEIVE_COUNT_MIN:
        text = f"{options.queue_url} gives a message up when it was received {count} times"
        warnings.append(f"{text}: set its maxReceiveCount to {_RECEIVE_COUNT_MIN} or more.")
    retention = _number(attributes.get("MessageRetentionPeriod"))
    if retention is not None and retention < _RETENTION_SECONDS_MIN:
        text = f"{options.queue_url} drops messages after {retention} s: they are sent again only up to an hour later"
        warnings.append(f"{text}. Set its MessageRetentionPeriod to {_RETENTION_SECONDS_MIN} or more.")
    return warnings


def _address(attributes: Mapping[str, Any], options: SqsOptions) -> str:
    arn = attributes.get("QueueArn")
    if isinstance(arn, str) and arn.isprintable() and 0 < len(arn.encode()) <= ADDRESS_BYTES:
        return arn
    return f"sqs:{options.region}:{options.queue_path}"


def _receive_count(policy: object) -> int | None:
    try:
        return _number(json.loads(str(policy))["maxReceiveCount"])
    except (ValueError, TypeError, KeyError):
        return None


def _number(value: object) -> int | None:
    """Read an attribute, which is text. What is no number is as good as not told."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
