"""Secrets are hidden wherever something is shown, unless credentials are exposed (docs/secrets.md).

`secret_plants` plants one secret in every place of every protocol. Here it is looked for in reprs, errors, columns, the
command line and conversions.
"""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.planted_secret import MARKER, NAMES, OCTETS, forms, nested, shows
from lib.protocols import MODULES, part
from lib.secret_plants import OBJECTS, planted_capture, turns
from lib.wire import frames_of, pcap
from wirefmt import amqp091, amqp10, convert, mqtt, nsq, rocketmq
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.convert.messages import wire_of
from wirefmt.errors import ConversionError, DecodeError
from wirefmt.protocols import PROTOCOLS as ROWS
from wirefmt.secrets import HiddenBytes, HiddenFloat, HiddenInt, HiddenText, is_secret_name
from wirefmt.spec import secrets as spec
from wirefmt.spec import table as tables

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

PROTOCOLS = tuple(OBJECTS)
COLUMNS = {row.name: row.columns() for row in ROWS}
BATCHES = {
    name: (MODULES[name].decode_batch, COLUMNS[name].BATCH, {"version": 5} if name == "mqtt" else {})
    for name in PROTOCOLS
}
user_properties = part("mqtt", "examples").user_properties


def decoded(protocol: str, octets: bytes, side: int) -> Any:
    options: Any = {"mqtt": {"version": 5}, "nsq": {"side": "server" if side else "client"}}.get(protocol, {})
    return MODULES[protocol].decode(octets, **options)


# ---- the rule


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "Password", "db.password", "my-pass_word", "passwd", "pwd", "pass", "passphrase", "secret",
        "client_secret", "secretKey", "SecretKey", "SECRET_KEY", "x-secret-key-2", "signature", "Signature", "SIGNATURE",
        "securityToken", "SecurityToken", "security-token", "AccessKey", "accesskey", "access_key_id", "apiKey", "X-API-Key",
        "Authorization", "refresh_token", "tokens", "jwt", "credentials", "sasl.jaas.config", "private key", "Set-Cookie",
    ],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_name(name.encode())
    assert is_secret_name(HiddenText(name))


@pytest.mark.parametrize(
    "name",
    ["", "p", "topic", "key", "keys", "TAGS", "UNIQ_KEY", "routing_key", "bypass", "compass", "texas", "design", "tokenizer",
     "secretary", "password-policy", "correlation_id", "x-death", "content-type", "public_key", "partition key", "\u00e9"],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
    assert not is_secret_name(name.encode())


def by_definition(name: str) -> bool:
    """The rule as spec/secrets.py says it."""
    letters = "".join(c for c in name if c.isascii() and c.isalpha()).lower()
    return any(letters == row.word if row.whole else letters.endswith(row.word) for row in spec.NAMES)


WORDS = st.sampled_from([row.word for row in spec.NAMES])


@given(
    st.lists(WORDS | WORDS.map(str.upper) | st.text(max_size=3) | st.sampled_from("-_. 1xs"), max_size=6).map("".join)
)
def test_the_core_follows_the_table(name: str) -> None:
    assert is_secret_name(name) == by_definition(name)


def test_the_table_of_names_is_sound() -> None:
    words = [row.word for row in spec.NAMES]
    assert len(set(words)) == len(words)
    assert all(word.isascii() and word.isalpha() and word == word.lower() for word in words)


def test_secret_fields_have_columns_and_attributes() -> None:
    """Every secret field names what there is; a rule about nothing hides nothing."""
    for row in spec.fields():
        assert row.field in {c.name for c in COLUMNS[row.protocol].FIELDS}, row
    said = {name: {repr(message) for _, message in make()} for name, make in OBJECTS.items()}
    for row in spec.fields():
        shown = f"{row.field}{chr(39) + ', ' if row.field == 'authentication_data' else '='}b'***'"
        assert any(shown in text for text in said[row.protocol]), row


# ---- hidden values


@pytest.mark.parametrize(
    ("value", "shown"),
    [(HiddenText("a"), "'***'"), (HiddenBytes(b"a"), "b'***'"), (HiddenInt(7), "'***'"), (HiddenFloat(1.5), "'***'")],
)
def test_hidden_values_are_values(value: Any, shown: str) -> None:
    plain = value.__class__.__bases__[0](value)
    assert repr(value) == shown
    assert repr((value,)) == f"({shown},)"
    assert value == plain
    assert hash(value) == hash(plain)
    assert str(value) == str(plain)
    assert json.dumps(plain if isinstance(plain, bytes) else value, default=str) == json.dumps(plain, default=str)
    for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert (type(again), again) == (type(value), plain)


def test_an_attribute_gives_the_value() -> None:
    packet = mqtt.Connect(client_identifier="c", user_name="u", password=OCTETS)
    assert packet.password == OCTETS
    assert OCTETS in packet.encode()
    assert amqp091.ConnectionSecureOk(response=OCTETS).response == OCTETS
    assert amqp10.SaslOutcome(code=0, additional_data=OCTETS).additional_data == OCTETS
    assert nsq.Auth(secret=OCTETS).secret == OCTETS
    command = rocketmq.RemotingCommand(code=105, opaque=1, ext_fields={"SecretKey": MARKER})
    assert command.ext_fields == {"SecretKey": MARKER}


def test_hidden_values_are_written_as_what_they_are() -> None:
    """What was read can be written again."""
    connect = next(p for _, p in OBJECTS["mqtt"]() if isinstance(p, mqtt.Connect))
    again = mqtt.Connect(
        client_identifier="c",
        user_name="u",
        password=connect.password,
        properties=connect.properties,
        will=connect.will,
    )
    assert again.encode() == connect.encode()
    table = amqp091.FieldTable({"password": 5, "rate_token": 1.5, "x": {"secret": b"b", "a": ["s"]}, "token": None})
    assert amqp091.FieldTable(table.pairs).encode() == table.encode()
    map_ = amqp10.Map({"password": 5, "token": 1.5, "x": {"secret": b"b", "jwt": "s"}, "secrets": [1]})
    assert amqp10.Map(map_.pairs).encode() == map_.encode()
    identify = nsq.Identify(
        members={"password": 5, "token": 1.5, "x": {"secret": "b", "tokens": [1, 2.5, "s", None, True]}}
    )
    assert "5" not in repr(identify)
    assert nsq.Identify(members=identify.members or ()).encode() == identify.encode()
    command = rocketmq.RemotingCommand(
        code=105, opaque=1, ext_fields={"SecretKey": "k\u00e9", "Signature": "s", "a": "b"}
    )
    assert rocketmq.RemotingCommand(code=105, opaque=1, ext_fields=command.ext_fields).encode() == command.encode()
    stored = rocketmq.MessageExt(topic="T", properties={"password": "p", "a": "b"})
    assert rocketmq.MessageExt(topic="T", properties=stored.properties).encode() == stored.encode()


# ---- reprs


def with_lists(value: Any) -> tuple[str, ...]:
    """SASL's frames have their fields as a list, too."""
    return ("value",) if type(value).__name__.startswith("Sasl") else ()


def views(value: Any, depth: int = 0) -> list[Any]:
    """A value, and what can be reached from it that is not a plain value: sections, tables, tuples, mappings, their views."""
    found = [value]
    if depth > 6 or isinstance(value, (str, bytes, int, float, memoryview, type(None))):
        return []
    for name in getattr(type(value), "__match_args__", ()):
        found += views(getattr(value, name), depth + 1)
    if hasattr(value, "items") and not isinstance(value, amqp091.FieldArray):
        items = value.items() if callable(value.items) else value.items
        found += [items]
        found += [view for key, item in items if not is_secret_name(key) for view in views(item, depth + 1)]
    elif isinstance(value, (tuple, list)):
        found += [view for item in value for view in views(item, depth + 1)]
    for name in ("pairs", "entries", "members", "ext_fields", "properties", "header", "notes", *with_lists(value)):
        view = getattr(value, name, None)
        if view is not None and not callable(view):
            found.append(view)
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_repr_shows_a_secret(protocol: str) -> None:
    for side, message in OBJECTS[protocol]():
        read = message if isinstance(message, amqp091.BasicMessage) else decoded(protocol, message.encode(), side)
        for one in (message, read, pickle.loads(pickle.dumps(read))):
            for view in views(one):
                assert not shows(repr(view)), (type(one), type(view), repr(view))
                assert not shows(str(view)), (type(one), type(view), str(view))


def test_reprs_of_parts_show_no_secret() -> None:
    properties = {"password": MARKER, "X-Auth-Token": MARKER, "TAGS": "a"}
    batch = rocketmq.Message(body=b"b", properties=properties)
    stored = rocketmq.MessageExt(topic="T", body=b"b", properties=properties)
    (again,) = rocketmq.decode_messages(stored.encode())
    transfer = next(o for _, o in OBJECTS["amqp10"]() if isinstance(o, amqp10.Transfer))
    for value in (
        batch, batch.properties, stored, stored.properties, again, again.properties, transfer, transfer.message,
        rocketmq.decode_properties(stored.properties_string), amqp10.AmqpValue(nested("password")),
        amqp10.AmqpSequence([nested("token")]), amqp10.decode_value(amqp10.Map(nested("pwd")).encode()),
        wire_of(mqtt.Publish(topic_name="t", version=5, properties=user_properties())),
        amqp091.FieldTable({"a": nested("secret")}), amqp091.FieldArray([nested("apiKey")]),
        rocketmq.KVTable.from_json({"table": properties}) if hasattr(rocketmq, "KVTable") else None,
    ):  # fmt: skip
        assert not shows(repr(value)), repr(value)
    assert "'TAGS': 'a'" in repr(batch)
    assert "'TAGS': 'a'" in repr(stored)


def test_the_payload_of_a_transfer_is_shown_if_no_word_of_a_name_is_in_it() -> None:
    for text in ("design", "bypass the texas optics", "north"):
        payload = amqp10.Message(body=text.encode()).encode()
        assert repr(payload) in repr(amqp10.Transfer(handle=0, payload=payload))
    for key in ("pass", "sig", "api-key", "Set-Cookie"):
        payload = amqp10.Message(application_properties={key: MARKER}, body=b"").encode()
        assert not shows(repr(amqp10.Transfer(handle=0, payload=payload)))


def test_a_repr_of_a_body_that_names_no_secret_is_as_it_was() -> None:
    command = rocketmq.RemotingCommand(code=34, opaque=1, body=b'{"clientID":"c"}')
    assert """body=b'{"clientID":"c"}'""" in repr(command)
    send = rocketmq.RemotingCommand(code=10, opaque=1, ext_fields={"topic": "T"}, body=b"token=5")
    assert "body=b'token=5'" in repr(send)


# ---- errors


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_error_shows_a_secret(protocol: str) -> None:
    """Each message truncated, and with an octet changed, at every position."""
    seen = 0
    for side, octets in turns(protocol):
        cuts = range(1, len(octets), max(1, len(octets) // 40))
        for wrong in [octets[:n] for n in cuts] + [octets[:n] + b"\xff" + octets[n + 1 :] for n in cuts]:
            try:
                for view in views(decoded(protocol, wrong, side)):
                    repr(view)
            except DecodeError as error:
                seen += 1
                assert not shows(f"{error} {error!r} {vars(error)}")
    assert seen > 20


# ---- columns


def listed(batch: Any) -> list[dict[str, Any]]:
    return pa.record_batch(batch).to_pylist()


def streams(protocol: str) -> list[bytes]:
    """What each side sends."""
    return [b"".join(octets for side, octets in turns(protocol) if side == which) for which in (0, 1)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_column_of_a_batch_shows_a_secret(protocol: str) -> None:
    decode, columns, options = BATCHES[protocol]
    for stream in streams(protocol):
        every = listed(decode(stream, **options))
        assert every
        assert not [row["error"] for row in every if row["error"]]
        assert not shows(str(every))
        assert shows(str(listed(decode(stream, expose_credentials=True, **options))))
        for column in columns:
            alone = listed(decode(stream, columns=[column.name], **options))
            assert alone == [{column.name: row[column.name]} for row in every]


def rows(capture: bytes, **options: Any) -> list[dict[str, Any]]:
    decoder = CaptureDecoder(**options)
    decoder.begin_file("c.pcap", 0)
    assert decoder.feed(capture) == len(capture)
    assert decoder.end_file()
    assert decoder.finish()
    batch = decoder.take(final=True)
    return listed(batch)


@cache
def planted(protocol: str) -> bytes:
    return planted_capture(protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_column_of_a_capture_shows_a_secret(protocol: str) -> None:
    hidden = rows(planted(protocol), raw=True, detail=True)
    assert {row["status"] for row in hidden} == {"ok"}
    assert {row["protocol"] for row in hidden} == {protocol}
    for row in hidden:
        for column, value in row.items():
            assert not shows(str(value)), (row["kind"], column, value)
    exposed = rows(planted(protocol), raw=True, detail=True, expose_credentials=True)
    assert len(exposed) == len(hidden)
    shown = {name for row in exposed for name, value in row.items() if shows(str(value))}
    assert protocol in shown
    # whatever is selected, it is what it is among all columns
    for each in tables.COLUMNS:
        alone = rows(planted(protocol), raw=True, detail=True, columns=[each.name])
        assert not shows(str(alone))
        assert alone == [{each.name: row[each.name]} for row in hidden]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_row_of_a_damaged_capture_shows_a_secret(protocol: str) -> None:
    """A packet is missing or truncated, so that rows are partial."""
    frames = [frame for _, frame in frames_of(planted(protocol))]
    statuses = set()
    for lost in range(3, len(frames) - 3, max(1, len(frames) // 20)):
        for damaged in (frames[:lost] + frames[lost + 1 :], [*frames[:lost], frames[lost][:-3], *frames[lost + 1 :]]):
            for row in rows(pcap(damaged), raw=True, detail=True):
                statuses.add(row["status"])
                assert not shows(str(row)), row
    assert {"ok", "gap"} <= statuses


def test_octets_with_a_secret_are_null_and_say_so() -> None:
    for protocol in ("mqtt", "amqp091", "amqp10"):
        with_secret = [row for row in rows(planted(protocol), raw=True) if row["payload"] == b"21.5"]
        assert with_secret
        assert {row["raw"] for row in with_secret} == {None}
        assert {row["error"] for row in with_secret} == {
            "raw is hidden: it holds a secret (expose_credentials shows it)"
        }
        exposed = [
            row for row in rows(planted(protocol), raw=True, expose_credentials=True) if row["payload"] == b"21.5"
        ]
        assert all(OCTETS in row["raw"] for row in exposed)
        assert {row["error"] for row in exposed} == {None}
        assert {row["error"] for row in rows(planted(protocol)) if row["payload"] == b"21.5"} == {None}


def test_bodies_that_carry_messages_are_not_looked_into() -> None:
    send = rocketmq.RemotingCommand(code=310, opaque=1, ext_fields={"b": "T"}, body=b'{"password": "p"}').encode()
    assert listed(rocketmq.decode_batch(send))[0]["payload"] == b'{"password": "p"}'
    user = rocketmq.RemotingCommand(code=3001, opaque=1, body=b'{"password": "p"}').encode()
    assert listed(rocketmq.decode_batch(user))[0]["payload"] is None
    route = rocketmq.RemotingCommand(code=0, flag=1, opaque=1, body=b'{"topic": "token"}').encode()
    assert listed(rocketmq.decode_batch(route))[0]["payload"] == b'{"topic": "token"}'


def test_maps_keep_what_is_not_secret() -> None:
    table = {"site": "north", "inner": {"password": "p", "unit": "C"}, "list": [{"token": 5}, 7]}
    declare = amqp091.QueueDeclare(channel=1, queue="q", arguments=table).encode()
    (row,) = listed(amqp091.decode_batch(declare))
    assert json.loads(dict(row["arguments"])["arguments"]) == {
        "site": "north", "inner": {"password": "***", "unit": "C"}, "list": [{"token": "***"}, 7],
    }  # fmt: skip
    opened = amqp10.Open(container_id="c", properties={amqp10.Symbol(key): value for key, value in table.items()})
    (row,) = listed(amqp10.decode_batch(opened.encode()))
    assert json.loads(dict(row["fields"])["properties"]) == {
        "site": "north", "inner": {"password": "***", "unit": "C"}, "list": [{"token": "***"}, 7],
    }  # fmt: skip


# ---- conversions


def convertible() -> list[Any]:
    headers = nested("password") | dict.fromkeys(NAMES, MARKER)
    return [
        mqtt.Publish(topic_name="t", payload=b"21.5", version=5, properties=user_properties()),
        convert.Wire("amqp091", amqp091.BasicProperties(headers=headers).encode(), b"21.5"),
        amqp10.Message(
            application_properties=dict.fromkeys(NAMES, MARKER),
            message_annotations={amqp10.Symbol("x-password"): MARKER, amqp10.Symbol("x-a"): nested("token")},
            body=b"21.5",
        ),
    ]


@pytest.mark.parametrize("to", ["mqtt5", "amqp091", "amqp10"])
@pytest.mark.parametrize("dialect", ["documented", "rabbitmq-4.3"])
def test_losses_show_no_secret(to: Any, dialect: Any) -> None:
    for message in convertible():
        try:
            made = convert.convert(message, to=to, dialect=dialect, routing_key="t", explain=True)
        except ConversionError as refused:
            assert not shows(f"{refused} {refused!r} {refused.losses}")
            continue
        assert not shows(
            f"{made!r} {made.wire!r} {made.losses!r} {[str(loss) for loss in made.losses]} {made.message!r}"
        )
        for loss in made.losses:
            if loss.key is not None and is_secret_name(loss.key):
                assert isinstance(loss.value, HiddenBytes)
    assert OCTETS in convert.convert(convertible()[0], to="amqp10").octets


# ---- the command line


@pytest.fixture
def wirefmt(capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs a command here: (exit code, stdout, stderr)."""
    pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")
    from wirefmt.cli.app import run

    def call(*arguments: object) -> tuple[int, str, str]:
        sys.stdout.flush()
        capfdbinary.readouterr()
        code = run([str(a) for a in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_the_command_line_shows_no_secret(
    wirefmt: Callable[..., Any], tmp_path: Path, protocol: str, form: str
) -> None:
    path = tmp_path / "c.pcap"
    path.write_bytes(planted(protocol))
    every = ",".join(column.name for column in tables.COLUMNS)
    for options in ((), ("--raw",), ("--columns", every), ("--as", "amqp10", "--columns", every)):
        code, out, err = wirefmt("decode", path, "--format", form, *options)
        assert code == 0, err
        assert not shows(out + err)
    code, out, err = wirefmt("decode", path, "--format", form, "--columns", every, "--expose-credentials")
    assert code == 0, err
    assert form == "table" or shows(out)
    code, out, err = wirefmt("summary", path, "--json")
    assert code == 0, err
    assert not shows(out + err)


@pytest.mark.parametrize("form", ["text", "jsonl", "hex"])
def test_convert_shows_no_secret_beside_the_message(wirefmt: Callable[..., Any], form: str) -> None:
    packet = convertible()[0].encode().hex()
    arguments = ("convert", "--from", "mqtt5", "--to", "amqp091", "--explain", "--format", form)
    code, out, err = wirefmt(*arguments, packet)
    assert code == 0, err
    if form == "jsonl":
        told = json.loads(out)
        assert shows(told.pop("raw")["hex"])  # the message itself is what was asked for
        assert {value["value"] for value in told["values"] if value.get("key") in NAMES} == {"***"}
        out = json.dumps(told)
    elif form == "hex":
        out = ""
    assert not shows(out + err)
    code, out, err = wirefmt(*arguments, "--expose-credentials", packet)
    assert code == 0, err
    if form == "jsonl":
        assert MARKER in {value["value"] for value in json.loads(out)["values"]}
    else:
        assert shows(err)


def test_marker_forms() -> None:
    """The test's own eyes: a secret is seen in hexadecimal and at any place in base64."""
    import base64

    for before in range(7):
        assert shows(base64.b64encode(b"x" * before + OCTETS + b"yz").decode())
    assert shows(f"..{OCTETS.hex()}..")
    assert not shows("nothing")
    assert len(set(forms())) == 7
