"""The options of a queue of SQS are checked before anything is sent, and boto3 is imported only to send."""

import subprocess
import sys
from dataclasses import replace

import pytest

from ledgence_worker.delivery.config import read_routes
from ledgence_worker.delivery.sqs.options import SqsOptions
from ledgence_worker.errors import InvalidInput
from tests.worker.delivery.sqs.server import told

AWS = SqsOptions(queue_url="https://sqs.eu-west-1.amazonaws.com/123456789012/mail", region="eu-west-1")
LOCAL = SqsOptions(queue_url="http://elasticmq:9324/q/mail", region="r", endpoint_url="http://localhost:9324")
URL = "https://sqs.eu-west-1.amazonaws.com"

TOML = """
[[routes]]
queue = "mail"
[routes.sqs]
queue_url = "https://sqs.eu-west-1.amazonaws.com/123456789012/mail"
region = "eu-west-1"
"""


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (AWS, {}),
        (AWS, {"operation_timeout_seconds": 0.1, "visibility_timeout_seconds": 30}),
        (AWS, {"operation_timeout_seconds": 30, "visibility_timeout_seconds": 43200}),
        (AWS, {"queue_url": "https://sqs.cn-north-1.amazonaws.com.cn/1/q", "region": "cn-north-1"}),
        (AWS, {"queue_url": "https://vpce-1-abc.sqs.eu-west-1.vpce.amazonaws.com/1/q"}),
        (AWS, {"queue_url": "https://sqs.eu-west-1.api.aws/1/q"}),
        (AWS, {"queue_url": "https://eu-west-1.queue.amazonaws.com/1/q"}),
        (AWS, {"queue_url": "https://sqs-fips.us-gov-west-1.amazonaws.com/1/q", "region": "us-gov-west-1"}),
        (AWS, {"queue_url": "https://queue.amazonaws.com/1/q", "region": "us-east-1"}),
        (LOCAL, {"local_credentials": True}),
        (LOCAL, {"local_credentials": True, "endpoint_url": "http://127.8.8.8:1/"}),
        (LOCAL, {"local_credentials": True, "endpoint_url": "https://[::1]:1"}),
        (LOCAL, {"queue_url": "http://x/q"}),
        # With an endpoint the queue's URL is a name.
        (LOCAL, {"queue_url": f"{URL}/1/q", "region": "us-east-1"}),
    ],
)
def test_good_options_are_taken(base, changes):
    replace(base, **changes)


@pytest.mark.parametrize(
    ("base", "changes", "reason"),
    [
        (AWS, {"region": ""}, "region '' is not the name of a region"),
        (AWS, {"region": "EU"}, "region 'EU' is not"),
        (AWS, {"region": "eu-west-1.evil.example/"}, "region 'eu-west-1.evil.example/' is not"),
        (AWS, {"region": "r" * 65}, "region 'rrr"),
        (AWS, {"region": "us-east-1"}, "is in region eu-west-1, and region says us-east-1"),
        (AWS, {"queue_url": "https://vpce-1.sqs.us-east-1.vpce.amazonaws.com/1/q"}, "is in region us-east-1"),
        (AWS, {"queue_url": "https://us-east-2.queue.amazonaws.com/1/q"}, "is in region us-east-2"),
        (AWS, {"queue_url": "mail"}, "queue_url 'mail' must be http:// or https://"),
        (AWS, {"queue_url": "ftp://x.example/1/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https:///1/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://x.example:99999/1/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://x.example:0/1/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://[::1/1/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://us er.example/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://x.example/q\n"}, "must be http:// or https://"),
        (AWS, {"queue_url": "https://x.éxample/q"}, "must be http:// or https://"),
        (AWS, {"queue_url": f"{URL}/1/q?a"}, "no user, query or fragment"),
        (AWS, {"queue_url": f"{URL}/1/q#"}, "no user, query or fragment"),
        (AWS, {"queue_url": "https://x.example\\@y.example/q"}, "no user, query or fragment"),
        (AWS, {"queue_url": "https://user:secret@x.example/1/q"}, r"queue_url 'https://\.\.\.@x.example/1/q' must"),
        (AWS, {"queue_url": f"https://x.example/{'a' * 80}/{'b' * 80}/{'c' * 80}"}, "does not end with the name"),
        (AWS, {"queue_url": "https://x.example/" + "q" * 1024}, "must be http:// or https://"),
        (AWS, {"queue_url": URL}, "does not end with the name of a queue"),
        (AWS, {"queue_url": f"{URL}/"}, "does not end with the name of a queue"),
        (AWS, {"queue_url": f"{URL}/1/q/"}, "does not end with the name of a queue"),
        (AWS, {"queue_url": f"{URL}/1/a.b"}, "does not end with the name of a queue"),
        (AWS, {"queue_url": f"{URL}/1/q.fifo"}, "is a FIFO queue"),
        (AWS, {"queue_url": "http://127.0.0.1:9324/1/q"}, "is not one of AWS: name its broker as endpoint_url too"),
        (AWS, {"queue_url": "http://elasticmq:9324/1/q"}, "is not one of AWS: name its broker as endpoint_url too"),
        (LOCAL, {"endpoint_url": "localhost:9324"}, "endpoint_url 'localhost:9324' must be http:// or https://"),
        (AWS, {"local_credentials": True}, "local_credentials need an endpoint_url on the loopback interface"),
        (LOCAL, {"local_credentials": True, "endpoint_url": URL}, "local_credentials need"),
        (LOCAL, {"local_credentials": True, "endpoint_url": "http://127.0.0.1.example"}, "local_credentials need"),
        (AWS, {"operation_timeout_seconds": 0.09}, "operation_timeout_seconds must be 0.1-30, not 0.09"),
        (AWS, {"operation_timeout_seconds": 30.1}, "operation_timeout_seconds must be 0.1-30"),
        (AWS, {"operation_timeout_seconds": float("nan")}, "operation_timeout_seconds must be 0.1-30"),
        (AWS, {"visibility_timeout_seconds": 29}, "visibility_timeout_seconds must be 30-43200, not 29"),
        (AWS, {"visibility_timeout_seconds": 43201}, "visibility_timeout_seconds must be 30-43200, not 43201"),
    ],
)
def test_bad_options_are_refused_by_name(base, changes, reason):
    with pytest.raises(InvalidInput, match=reason) as refused:
        replace(base, **changes)
    assert str(refused.value).partition(" ")[0] in {*changes, "queue_url"}
    assert "secret" not in str(refused.value)


def test_a_route_names_it(write):
    [route] = read_routes(write("d.toml", TOML))
    assert (route.adapter, route.options) == ("sqs", AWS)


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        ('region = "eu-west-1"\n', 4, "routes[0].sqs lacks the field region"),
        ("/123456789012/mail", 5, "queue_url 'https://sqs.eu-west-1.amazonaws.com' does not end with"),
        ('"eu-west-1"', 6, "region '' is not the name"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(write, change, line, reason):
    path = write("d.toml", TOML.replace(change, '""' if change.startswith('"') else ""))
    with pytest.raises(InvalidInput) as refused:
        read_routes(path)
    assert str(refused.value).startswith(f"{path}, line {line}: {reason}")


def test_the_same_queue_used_otherwise_is_the_same_physical_queue(write):
    second = TOML.replace('"mail"', '"news"') + "visibility_timeout_seconds = 90\n"
    with pytest.raises(InvalidInput, match=r"line 10: this is the physical queue of mail, line 2"):
        read_routes(write("d.toml", TOML + second))


def test_without_boto3_it_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    for make in (AWS.publisher, AWS.ack_queue):
        with pytest.raises(InvalidInput, match=r'needs boto3: pip install "django-ledgence-worker\[sqs\]"'):
            make()


def test_boto3_is_imported_when_a_queue_is_used(write):
    script = """
import sys
from ledgence_worker.delivery.config import read_routes
[route] = read_routes(sys.argv[1])
before = "boto3" in sys.modules
route.publisher()
print(before, "boto3" in sys.modules)
"""
    command = [sys.executable, "-c", script, write("d.toml", TOML)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "False True\n"


def test_a_profile_that_does_not_exist_is_told(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "absent")
    for make in (AWS.publisher, AWS.ack_queue):
        with pytest.raises(InvalidInput, match="absent"):
            make()


def test_local_credentials_are_used_only_where_they_are_asked_for(server, options, make_publisher, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ofthechain")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ofthechain")
    attributes = told(Attributes={"QueueArn": "a"})
    server.replies.extend([attributes, attributes])
    for is_local in (True, False):
        make_publisher(replace(options, local_credentials=is_local)).inspect()
    used = [request.headers["Authorization"].split("Credential=")[1].split("/")[0] for request in server.requests]
    assert used == ["local", "ofthechain"]


def test_the_environment_leads_nowhere_else(server, options, make_publisher, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", server.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    make = make_publisher
    assert make(AWS)._client.meta.endpoint_url == "https://sqs.eu-west-1.amazonaws.com"
    assert make(options)._client.meta.endpoint_url == server.url


def test_a_proxy_is_used_as_boto3_does(server, make_publisher, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.replies.append(told(Attributes={"QueueArn": "a"}))
    far = replace(AWS, queue_url="http://broker.example/q", endpoint_url="http://broker.example")
    assert make_publisher(far).inspect().address == "a"
    assert server.requests[0].headers["Host"] == "broker.example"
