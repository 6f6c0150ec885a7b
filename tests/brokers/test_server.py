"""ElasticMQ as a process: it starts on its port again, keeps to the limits of SQS, and ends with its parent."""

import subprocess
import sys

import psutil
import pytest

from ledgence_project.elasticmq import ElasticMQ, ServerFailed

pytestmark = pytest.mark.broker

STARTING = """
import signal
from ledgence_project.elasticmq import ElasticMQ
server = ElasticMQ()
server.start()
print(server.pid, flush=True)
signal.pause()
"""


def test_it_starts_on_its_port_again_without_queues() -> None:
    with ElasticMQ() as server:
        queue_url = server.create_queue("mail")
        first = psutil.Process(server.pid)
        server.kill()
        assert not first.is_running()
        server.start()
        assert server.call("ListQueues").get("QueueUrls", []) == []
        assert server.create_queue("mail") == queue_url
        server.delete_queue(queue_url)
        assert server.call("ListQueues").get("QueueUrls", []) == []


def test_it_keeps_to_the_limits_of_sqs(elasticmq: ElasticMQ) -> None:
    queue_url = elasticmq.create_queue("limits")
    with pytest.raises(ServerFailed, match="MaxNumberOfMessages"):
        elasticmq.call("ReceiveMessage", QueueUrl=queue_url, MaxNumberOfMessages=11)


def test_it_answers_again_after_it_was_frozen(elasticmq: ElasticMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    elasticmq.freeze()
    try:
        with monkeypatch.context() as patch, pytest.raises(TimeoutError):
            patch.setattr("ledgence_project.elasticmq.process.CALL_SECONDS", 0.2)
            elasticmq.call("ListQueues")
    finally:
        elasticmq.thaw()
    assert elasticmq.call("ListQueues") is not None


def test_it_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", STARTING], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        assert "org.elasticmq.server.Main" in server.cmdline()
    finally:
        parent.kill()
        parent.communicate()
    server.wait(30)
