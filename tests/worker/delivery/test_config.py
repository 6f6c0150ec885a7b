"""The delivery configuration is read strictly, and what is wrong in it is told with its line."""

import os
import re
from dataclasses import asdict

import pytest

from ledgence_worker.delivery.config import read_routes
from ledgence_worker.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("installed_adapters")

TOML = """# Two routes
[[routes]]
queue = "mail"
[routes.fake]
address = "a"

[[routes]]
tenant = "t"
namespace = "n"
queue = "mail"
[routes.fake]
address = "b"
retries = 0
patience_seconds = 2
secure = false
hosts = ["h1", "h2"]
"""
JSON = """{"routes": [
  {"queue": "mail", "fake": {"address": "a"}},
  {"tenant": "t", "namespace": "n", "queue": "mail", "fake": {
    "address": "b", "retries": 0, "patience_seconds": 2, "secure": false, "hosts": ["h1", "h2"]}}
]}
"""


@pytest.mark.parametrize(("name", "text"), [("d.toml", TOML), ("d.json", JSON), ("d.toml", TOML.replace("\n", "\r\n"))])
def test_both_forms_say_the_same(write, name, text):
    first, second = read_routes(write(name, text))
    assert (first.tenant, first.namespace, first.queue, first.adapter) == (None, None, "mail", "fake")
    assert asdict(first.options) == {
        "address": "a",
        "retries": 3,
        "patience_seconds": 1.0,
        "secure": True,
        "hosts": (),
    }
    assert (second.tenant, second.namespace, second.queue) == ("t", "n", "mail")
    assert asdict(second.options) == {
        "address": "b",
        "retries": 0,
        "patience_seconds": 2.0,
        "secure": False,
        "hosts": ("h1", "h2"),
    }
    assert [repr(second.publisher()), repr(second.ack_queue())] == ["('publisher', 'b')", "('ack queue', 'b')"]


ROUTE = '[[routes]]\nqueue = "q"\n[routes.fake]\naddress = "a"\n'


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "the document lacks the field routes"),
        ("\nroutes = 1\n", 2, "routes must be an array of at least one table"),
        ("routes = []\n", 1, "routes must be an array of at least one table"),
        ("\nroutes = [1]\n", 2, "routes[0] must be a table"),
        (ROUTE + "\n[other]\n", 6, "the document has an unknown field 'other'; it may have routes"),
        (ROUTE.replace('"q"\n', '"q"\npriority = 3\n'), 3, "routes[0] has an unknown field 'priority'"),
        (ROUTE.replace('queue = "q"\n', ""), 1, "routes[0] lacks the field queue"),
        (ROUTE.replace('"q"', "7"), 2, "queue must be text, not int"),
        (ROUTE.replace('"q"', '" q"'), 2, "queue ' q' must be printable text"),
        (ROUTE.replace('"q"\n', '"q"\nnamespace = ""\n'), 3, "namespace must be 1-128 bytes"),
        ('[[routes]]\nqueue = "q"\n', 1, "needs one table that names its adapter, and this one has none"),
        (ROUTE + "[routes.missing]\n", 1, "and this one names fake and missing"),
        (ROUTE.replace("routes.fake", "routes.rabbit"), 3, "there is no adapter 'rabbit'; known are: absent, fake,"),
        (ROUTE.replace("[routes.fake]\naddress", "fake"), 3, "routes[0].fake must be a table"),
        (ROUTE.replace("fake", "missing"), 3, "the adapter missing cannot be loaded from ledgence_test_broker:Missing"),
        (ROUTE.replace("fake", "absent"), 3, "the adapter absent cannot be loaded from ledgence_test_absent:Options"),
        (ROUTE.replace("fake", "undecorated"), 3, "ledgence_test_broker:Undecorated is not a dataclass of options"),
        (ROUTE + "adress = 1\n", 5, "routes[0].fake has an unknown field 'adress'; it may have address, retries"),
        (ROUTE.replace("address", "#"), 3, "routes[0].fake lacks the field address"),
        (ROUTE.replace('"a"', "1"), 4, "address must be text, not 1"),
        (ROUTE.replace('"a"', "2026-01-01"), 4, "address is a date or a time of TOML"),
        (ROUTE + "\nretries = true\n", 6, "retries must be a whole number, not True"),
        ((ROUTE + "retries = true\n").replace("\n", "\r\n"), 5, "retries must be a whole number, not True"),
        (ROUTE + "retries = 1.0\n", 5, "retries must be a whole number, not 1.0"),
        (ROUTE + "retries = -1\n", 5, "retries -1 must not be negative"),
        (ROUTE + "secure = 1\n", 5, "secure must be true or false, not 1"),
        (ROUTE + "patience_seconds = inf\n", 5, "patience_seconds must be a number"),
        (ROUTE + "patience_seconds = nan\n", 5, "patience_seconds must be a number"),
        (ROUTE + 'hosts = [\n  "a",\n  1,\n]\n', 5, "hosts[1] must be text, not 1"),
        (ROUTE.replace('"a"', '"""\nno\n where"""\nretries = -1'), 7, "retries -1 must not be negative"),
        (ROUTE.replace('"a"', '"nowhere"'), 3, "There is nothing"),
        (ROUTE + ROUTE.replace('"a"', '"b"'), 5, "queue q has a route already, on line 1"),
        (ROUTE + ROUTE.replace('"q"', '"r"'), 7, "this is the physical queue of q, line 1"),
        (ROUTE + ROUTE.replace('"q"', '"r"') + "patience_seconds = 9\n", 7, "this is the physical queue of q, line 1"),
        (ROUTE.replace('"q"', '"q"\nqueue = "r"'), 3, "it is not valid TOML: a field stands twice."),
        (ROUTE.replace('"q"', '"q"\n"qu\\u0065ue" = "r"'), 3, "it is not valid TOML: a field stands twice."),
        (ROUTE + "[routes.fake]\n", 5, "Cannot declare ('routes', 'fake') twice"),
        (ROUTE.replace('"a"', "a"), 4, "it is not valid TOML: Invalid value."),
        (ROUTE + "hosts = [\n\n", 7, "it is not valid TOML: Invalid value."),
        ('routes = [\n  {queue = "q", fake = {address = "a"}},\n  {quue = "r"}\n]\n', 3, "has an unknown field 'quue'"),
        ('routes = [\n  # One\n  {queue = "q", fake = {adress = "a"}}]\n', 3, "has an unknown field 'adress'"),
    ],
)
def test_what_is_wrong_in_toml_is_told_with_its_line(write, text, line, told):
    path = write("d.toml", text)
    with pytest.raises(InvalidInput) as error:
        read_routes(path)
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "it is not valid JSON: Expecting value."),
        ("\n[]", 2, "the document must be a table"),
        ("{}", 1, "the document lacks the field routes"),
        ('\ufeff{"routes": []}', 1, "it is not valid JSON: Expecting value."),
        ('{"routes": []}\n{}', 2, "something follows the document"),
        ('{"routes": [],\n"routes": []}', 2, "the field 'routes' stands twice"),
        ('{"routes": [],\n"rout\\u0065s": []}', 2, "the field 'routes' stands twice"),
        ('{"routes": [],}', 1, "a name in quotes must stand here"),
        ('{"routes": [1\n2]}', 2, "a comma or ] must stand here"),
        ('{"routes": []\n"a"}', 2, "a comma or } must stand here"),
        ('{"routes"\n[]}', 2, "a colon must stand here"),
        ('{"routes": [\n1,]}', 2, "Expecting value"),
        ('{"routes": [\nNaN]}', 2, "NaN is not a JSON number"),
        ('{"routes": [\n"\t"]}', 2, "Invalid control character at"),
        ('{"routes": [\n01]}', 2, "a comma or ] must stand here"),
        ('{"routes": [\n' + "9" * 5000 + "]}", 2, "4300 digits"),
        ('{"routes":\n' + "[" * 9000, 2, "it is nested deeper than 16 levels"),
        ('{"routes": [\n{"queue": null, "fake": {}}]}', 2, "queue must be text, not NoneType"),
        ('{"routes": [\n{"queue": "\\ud800", "fake": {}}]}', 2, "queue '\\ud800' must be printable text"),
        ('{"routes": [{"queue": "q",\n"fake":\n{"address": "a",\n"x":\n1}}]}', 4, "has an unknown field 'x'"),
        ('{"routes": [{"queue": "q",\n"fake":\n{"retries": 1}}]}', 2, "routes[0].fake lacks the field address"),
        ('{"routes": [{"queue": "q",\n"fake": {"address": null}}]}', 2, "address must be text, not None"),
        ('{"routes": [{"queue": "q", "fake": {"address": "a",\n"patience_seconds": 1e999}}]}', 2, "must be a number"),
    ],
)
def test_what_is_wrong_in_json_is_told_with_its_line(write, text, line, told):
    path = write("d.json", text)
    with pytest.raises(InvalidInput) as error:
        read_routes(path)
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert told in str(error.value)


@pytest.mark.parametrize("text", ["null", "[]", "1", '"\\u00e9"', "[[1, [2]], {}]", '{"a": {"b": [{"c": -1.5e3}]}}'])
def test_the_reader_of_json_reads_what_the_standard_library_reads(write, text):
    with pytest.raises(InvalidInput, match="the document (must be|has an unknown field)"):
        read_routes(write("d.json", f" \r\n\t{text}\n "))


def test_the_same_queue_of_another_scope_has_a_route_of_its_own(write):
    other = ROUTE.replace("queue", 'tenant = "t"\nqueue').replace('"a"', '"b"')
    assert [route.tenant for route in read_routes(write("d.toml", ROUTE + other))] == [None, "t"]


def test_the_size_is_bounded(write):
    read_routes(write("d.toml", ROUTE + "#" * (16 * 1024 - 1 - len(ROUTE))))
    with pytest.raises(InvalidInput, match="too large: it must have less than 16384 bytes"):
        read_routes(write("d.toml", ROUTE + "#" * (16 * 1024 - len(ROUTE))))


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path):
    path = tmp_path / "d.json"
    path.write_bytes(b'{\n"\xff"}')
    with pytest.raises(InvalidInput, match=re.escape(f"{path}, line 2: byte 3 is not UTF-8.")):
        read_routes(str(path))


def test_only_regular_files_are_read(tmp_path):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InvalidInput, match=re.escape(f"{pipe} is not a regular file.")):
        read_routes(str(pipe))
    with pytest.raises(InvalidInput, match="folder.toml' cannot be read: Is a directory."):
        read_routes(str(tmp_path / "folder.toml"))
    with pytest.raises(InvalidInput, match="absent.toml' cannot be read: No such file or directory."):
        read_routes(str(tmp_path / "absent.toml"))
    with pytest.raises(InvalidInput, match="cannot be read: .*embedded null character"):
        read_routes("nul\0.toml")


@pytest.mark.parametrize("name", ["d.yaml", "d", "d.TOML", ".toml"])
def test_the_ending_tells_the_form(write, name):
    with pytest.raises(InvalidInput, match=r"must end in \.toml or \.json"):
        read_routes(write(name, ROUTE))
