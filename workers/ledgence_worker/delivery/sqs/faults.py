"""What a failed call to SQS means: whether anything was done, and whether it helps to repeat it."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ProxyConnectionError,
    SSLError,
    SSOError,
    TokenRetrievalError,
)

from ledgence_worker.delivery.sqs.clients import Client
from ledgence_worker.delivery.sqs.options import SqsOptions

#: What a broker says is repeated up to this length.
_TEXT_CHARACTERS: Final = 300
# These errors are no shapes of the service, so botocore has no classes for them.
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"})
_CREDENTIALS: Final = re.compile(r"Token|Signature|AccessKey|UnrecognizedClient|AuthFailure|RequestExpired|OptIn")
_THROTTLED: Final = re.compile(r"[Tt]hrottl|TooManyRequests|SlowDown|RequestLimitExceeded|BandwidthLimit|OverLimit")
_CONTENT: Final = frozenset({"InvalidParameterValue", "InvalidParameterValueException"})
#: Raised before anything is sent to the queue: there is no connection, or there are no credentials yet.
_UNSENT: Final = (
    EndpointConnectionError,
    ConnectTimeoutError,
    ProxyConnectionError,
    CredentialRetrievalError,
    MetadataRetrievalError,
    SSOError,
    TokenRetrievalError,
)


class Outcome(Enum):
    """What a call that failed did."""

    # Nothing: it never reached the broker, or was throttled. Repeat it later.
    UNDONE = auto()
    # Nothing, and repeating it is in vain until somebody changes the queue, the credentials or what they may do.
    FORBIDDEN = auto()
    # Nothing: what it says can never be accepted.
    REFUSED = auto()
    # Nobody knows.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failed call; ``text`` tells people what happened and what to do."""

    outcome: Outcome
    text: str


def fault_of(error: Exception, *, client: Client, options: SqsOptions, action: str) -> Fault:
    """Explain the failure of an action such as SendMessage on a queue."""
    text = f"{action} on {options.queue_url}: {tidy(error)}"
    if isinstance(error, ClientError):
        # boto3 asks others for credentials meanwhile, and their refusal of a role is not the queue's.
        is_queues = error.operation_name.startswith(action)
        answered = _answered(error, client=client, options=options, action=action)
        return answered if is_queues else Fault(outcome=Outcome.UNDONE, text=text)
    if isinstance(error, NoCredentialsError):
        return Fault(outcome=Outcome.FORBIDDEN, text=f"{text}. Give boto3 credentials.")
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        # Other errors of TLS may come while the answer is read.
        return Fault(outcome=Outcome.FORBIDDEN, text=text)
    if isinstance(error, _UNSENT):
        return Fault(outcome=Outcome.UNDONE, text=text)
    return Fault(outcome=Outcome.UNKNOWN, text=f"{text} ({type(error).__name__})")


def tidy(text: object) -> str:
    """Return what a broker says as one printable line of bounded length."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:_TEXT_CHARACTERS]).strip()


def is_throttled(code: str) -> bool:
    """Tell whether an error's code asks to slow down. There are many, and some brokers put a prefix before them."""
    return _THROTTLED.search(code) is not None


def _answered(error: ClientError, *, client: Client, options: SqsOptions, action: str) -> Fault:
    """Explain an error that the broker answered."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    said = tidy(error.response.get("Error", {}).get("Message", "") or f"status {status}")
    where = f"{action} on {options.queue_url}"
    kinds = client.exceptions
    if is_throttled(code) or status in (408, 429):
        return Fault(outcome=Outcome.UNDONE, text=f"{where} is throttled: {said}")
    if isinstance(error, kinds.QueueDoesNotExist | kinds.InvalidAddress):
        text = f"There is no queue {options.queue_url} in region {options.region} at {client.meta.endpoint_url}: {said}"
        return Fault(outcome=Outcome.FORBIDDEN, text=f"{text} Create it, or correct queue_url and region.")
    if code in _DENIED or isinstance(error, kinds.KmsAccessDenied):
        text = f"The credentials may not do sqs:{action} on {options.queue_url}: {said}. Allow it."
        return Fault(outcome=Outcome.FORBIDDEN, text=text)
    if _CREDENTIALS.search(code) or status == 401:
        return Fault(outcome=Outcome.FORBIDDEN, text=f"{where}: the credentials are refused: {code}: {said}")
    content = kinds.InvalidMessageContents | kinds.InvalidAttributeValue | kinds.BatchRequestTooLong
    if isinstance(error, content | kinds.ReceiptHandleIsInvalid | kinds.MessageNotInflight) or code in _CONTENT:
        return Fault(outcome=Outcome.REFUSED, text=f"{where} is refused: {code}: {said}")
    outcome = Outcome.UNKNOWN if status >= 500 else Outcome.FORBIDDEN
    return Fault(outcome=outcome, text=f"{where} is answered with {status} {code}: {said}")
