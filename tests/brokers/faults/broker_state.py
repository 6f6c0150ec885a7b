"""What the broker has, asked and changed past the proxy."""

from ledgence_project.elasticmq import SqsProcess
from ledgence_worker.delivery.sqs.options import SqsOptions


def drained(server: SqsProcess, options: SqsOptions) -> list[str]:
    """Take what the broker has to give, past the proxy."""
    bodies = []
    while messages := server.call("ReceiveMessage", QueueUrl=options.queue_url, MaxNumberOfMessages=10).get("Messages"):
        bodies += [message["Body"] for message in messages]
    return sorted(bodies)


def depth(server: SqsProcess, options: SqsOptions) -> int:
    """Return how many messages the broker has, hidden ones too."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    told = server.call("GetQueueAttributes", QueueUrl=options.queue_url, AttributeNames=names)["Attributes"]
    return sum(int(told[name]) for name in names)


def put(server: SqsProcess, options: SqsOptions, *bodies: str) -> None:
    """Give messages to the broker, past the proxy."""
    for body in bodies:
        server.call("SendMessage", QueueUrl=options.queue_url, MessageBody=body)
