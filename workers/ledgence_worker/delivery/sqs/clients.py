"""Clients of boto3, set up for one part of the adapter each. A client's calls may be made from any thread."""

from typing import Any, Final

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import InvalidInput

#: Any: boto3 makes its clients at run time and has no types.
type Client = Any

#: More threads than the loops of a process have, so that none of them makes a connection for one call alone.
_CONNECTIONS: Final = 16
#: What a local broker does not look at.
_LOCAL: Final = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}


def make_session(options: SqsOptions) -> Session:
    """Return a session, with which one thread at a time may make clients. Raises InvalidInput."""
    try:
        return Session(**_LOCAL) if options.local_credentials else Session()
    except BotoCoreError as error:
        # A profile that does not exist, or a configuration file that cannot be read.
        raise InvalidInput(f"boto3 cannot start: {error}") from error


def make_client(session: Session, options: SqsOptions, *, attempts: int = 1, wait_seconds: int = 0) -> Client:
    """Return a client whose answers may take ``wait_seconds`` longer than an operation. Raises InvalidInput."""
    seconds = options.operation_timeout_seconds
    config = Config(
        connect_timeout=seconds,
        # A client that gives up before its wait is over leaves the broker waiting: the next message goes to nobody.
        read_timeout=wait_seconds + seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=_CONNECTIONS,
        tcp_keepalive=True,
        # The destination is what the file says: a variable would send one process's messages elsewhere.
        ignore_configured_endpoint_urls=True,
        # The arguments are made here, and checking them is a tenth of what a call computes.
        parameter_validation=False,
        user_agent_extra="ledgence",
    )
    try:
        return session.client("sqs", region_name=options.region, endpoint_url=options.endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"boto3 cannot be set up for {options.queue_url}: {error}") from error
