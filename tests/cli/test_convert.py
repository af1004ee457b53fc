"""`wirefmt convert` and `wirefmt decode --as`, as a user meets them.

Octets that are expected were worked out by hand from the specifications and the published tables.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lib.paths import ROOT

pytest.importorskip("rich_click", reason="needs rich-click (pip install 'wirefmt[cli]')")

import pyarrow.parquet

from wirefmt import capture, convert
from wirefmt.cli.app import run

SAMPLES = ROOT / "samples"
#: PUBLISH, QoS 0, topic a/b, no properties, payload 21.5
PUBLISH = "300a0003612f620032312e35"
#: header {durable: false}; data 21.5
MESSAGE = "005370c0020142" + "005375a00432312e35"
#: content header: delivery_mode 1; one body frame
CONTENT = "0200010000000f003c00000000000000000004100001ce" + "0300010000000432312e35ce"


@pytest.fixture
def wirefmt(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Runs a command here: (exit code, stdout, stderr)."""

    def call(*arguments: object, given: bytes | None = None) -> tuple[int, str, str]:
        sys.stdout.flush()
        capfdbinary.readouterr()
        if given is not None:
            file = tmp_path_factory.mktemp("given") / "stdin"
            file.write_bytes(given)
            monkeypatch.setattr(sys, "stdin", file.open())
        code = run([str(a) for a in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# ---- ways in and out


def test_hexadecimal_on_the_command_line(wirefmt: Callable[..., Any]) -> None:
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", PUBLISH) == (0, f"{MESSAGE}\n", "")
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp091", PUBLISH) == (0, f"{CONTENT}\n", "")
    spaced = "0x" + PUBLISH[:2] + " " + ":".join(PUBLISH[i : i + 2] for i in range(2, len(PUBLISH), 2))
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", spaced.upper()) == (
        0,
        f"{MESSAGE}\n",
        "",
    )
    told = wirefmt("convert", "--from", "amqp10", "--to", "mqtt5", "--routing-key", "a.b", MESSAGE)
    assert told == (0, f"{PUBLISH}\n", "")
    assert wirefmt("convert", "--from", "amqp091", "--to", "mqtt5", "--routing-key", "a.b", CONTENT) == (
        0,
        f"{PUBLISH}\n",
        "",
    )


def test_several_messages_come_out_in_order(wirefmt: Callable[..., Any]) -> None:
    other = PUBLISH[:-2] + "36"
    code, out, _ = wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", PUBLISH, other)
    assert (code, out.split()) == (0, [MESSAGE, MESSAGE[:-2] + "36"])


def test_files_and_standard_input(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    octets = tmp_path / "packet.bin"
    octets.write_bytes(bytes.fromhex(PUBLISH))
    text = tmp_path / "packet.hex"
    text.write_text("\n".join(PUBLISH[i : i + 10] for i in range(0, len(PUBLISH), 10)) + "\n")
    encoded = tmp_path / "packet.b64"
    encoded.write_text(base64.encodebytes(bytes.fromhex(PUBLISH)).decode())
    for arguments in (("--input", "raw", octets), (text,), ("--input", "base64", encoded)):
        assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", *arguments) == (0, f"{MESSAGE}\n", "")
    for form, file in (("raw", octets), ("hex", text), ("base64", encoded)):
        for name in ((), ("-",)):
            told = wirefmt(
                "convert", "--from", "mqtt5", "--to", "amqp10", "--input", form, *name, given=file.read_bytes()
            )
            assert told == (0, f"{MESSAGE}\n", "")


def test_formats(wirefmt: Callable[..., Any], tmp_path: Path) -> None:
    call = ("convert", "--from", "mqtt5", "--to", "amqp10", PUBLISH, "--format")
    assert wirefmt(*call, "base64") == (0, base64.b64encode(bytes.fromhex(MESSAGE)).decode() + "\n", "")
    assert wirefmt(*call, "raw", "-o", tmp_path / "m") == (0, "", "")
    assert (tmp_path / "m").read_bytes().hex() == MESSAGE
    assert lines(wirefmt(*call, "jsonl")[1]) == [{"protocol": "amqp10", "raw": {"hex": MESSAGE}}]
    assert "amqp10.Data(b'21.5')" in wirefmt(*call, "text")[1]
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp091", PUBLISH, "--format", "text")[1].endswith("\n21.5\n")


def test_json_lines_go_through_all_protocols(wirefmt: Callable[..., Any]) -> None:
    line = json.dumps({"protocol": "mqtt5", "raw": {"hex": PUBLISH}}).encode()
    for to in ("amqp10", "amqp091", "mqtt5"):
        code, out, err = wirefmt(
            "convert", "--input", "jsonl", "--to", to, "--format", "jsonl", "--routing-key", "a.b", given=line
        )
        assert (code, err, lines(out)[0]["protocol"]) == (0, "", to)
        line = out.encode()
    assert lines(out)[0]["raw"] == {"hex": PUBLISH}


def test_json_lines_of_decode(wirefmt: Callable[..., Any]) -> None:
    """What decode writes is what convert reads, whatever the protocol and however its octets stand there."""
    for name in (
        "mosquitto-paho-v5.pcap",
        "mosquitto-paho-v311.pcap",
        "rabbitmq-pyamqp-amqp091.pcap",
        "rabbitmq-rhea-amqp10.pcap.gz",
    ):
        columns = "protocol,version,raw,converted"
        _, out, _ = wirefmt("decode", SAMPLES / name, "--filter", "raw is not None", "--columns", columns, "--as", "amqp091",
                            "--format", "jsonl")  # fmt: skip
        rows = lines(out)
        code, made, _ = wirefmt(
            "convert", "--input", "jsonl", "--to", "amqp091", "--format", "jsonl", given=out.encode()
        )
        assert code == int("rhea" in name)  # a few of its messages have bodies of two kinds
        assert [row.get("error") for row in lines(made)] == [row["converted"].get("error") for row in rows]
        for row, single in zip(rows, lines(made), strict=True):
            if "error" not in single and row["protocol"] != "amqp091":  # one that stays is written anew into frames
                assert bytes.fromhex(single["raw"]["hex"]) == octets_of(row["converted"]["raw"])
        assert len(rows) > 20


def octets_of(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


def test_older_packets(wirefmt: Callable[..., Any]) -> None:
    older = "30090003612f6232312e35"
    assert wirefmt("convert", "--from", "mqtt311", "--to", "amqp10", older) == (0, f"{MESSAGE}\n", "")
    assert wirefmt("convert", "--from", "mqtt31", "--to", "mqtt5", older)[:2] == (0, f"{PUBLISH}\n")


def test_frames_around_a_message(wirefmt: Callable[..., Any]) -> None:
    # basic.publish on channel 1: ticket 0, exchange amq.topic, routing key a.b, no bits
    publish = "01000100000014003c0028" + "0000" + "09616d712e746f706963" + "03612e62" + "00" + "ce"
    publish = publish.replace("0100010000" + "0014", "0100010000" + f"{len(bytes.fromhex(publish)) - 8:04x}", 1)
    assert wirefmt("convert", "--from", "amqp091", "--to", "mqtt5", publish + CONTENT) == (0, f"{PUBLISH}\n", "")
    # transfer on channel 0, handle 0, delivery-id 0, tag 01, format 0
    transfer = "005314c00b05" + "43" + "43" + "a00101" + "43" + "41"
    transfer = transfer.replace("c00b", f"c0{len(bytes.fromhex(transfer)) - 5:02x}") + MESSAGE
    frame = f"{len(bytes.fromhex(transfer)) + 8:08x}02000000" + transfer
    assert wirefmt("convert", "--from", "amqp10", "--to", "mqtt5", "--routing-key", "a.b", frame) == (
        0,
        f"{PUBLISH}\n",
        "",
    )


# ---- what is reported

#: QoS 1, retain, identifier 7; Payload Format Indicator 1, Message Expiry Interval 60, User Property (x-site, north)
RICH = "33 21 0001 74 0007 15 0101 020000003c 26 0006 782d73697465 0005 6e6f727468 6869 6869"
RICH = f"33{len(bytes.fromhex(RICH)) - 2:02x}" + RICH[5:].replace("0007 15", f"0007 {2 + 5 + 1 + 8 + 7:02x}")


def test_losses_are_told(wirefmt: Callable[..., Any]) -> None:
    code, out, err = wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", RICH)
    assert code == 0
    assert err.splitlines() == [
        "wirefmt convert: Retain dropped: the rule says so (mqtt5>amqp10 retain)",
        "wirefmt convert: Payload Format Indicator dropped: the rule says so (mqtt5>amqp10 payload-format-indicator)",
    ]
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", RICH, "--quiet") == (0, out, "")
    (row,) = lines(wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", RICH, "--format", "jsonl")[1])
    assert [(loss["rule"], loss["what"]) for loss in row["losses"]] == [
        ("mqtt5>amqp10 retain", "dropped"),
        ("mqtt5>amqp10 payload-format-indicator", "dropped"),
    ]


def test_explain_tells_every_value(wirefmt: Callable[..., Any]) -> None:
    code, out, err = wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", RICH, "--explain")
    title, header, *rows = err.splitlines()
    assert (code, len(out.splitlines())) == (0, 1)
    assert title.strip().endswith("mqtt5 to amqp10, documented")
    assert header.split() == ["field", "value", "what", "to", "rule"]
    told = {row.split("  ")[0]: " ".join(row.split()) for row in rows}
    assert told["QoS"] == "QoS 1 taken header.durable: true unless 0 qos"
    assert told["Retain"] == "Retain 1 dropped retain"
    assert told["Message Expiry Interval"].startswith(
        "Message Expiry Interval 60 taken header.ttl: seconds to milliseconds"
    )
    assert told["User Property[x-site]"] == "User Property[x-site] north taken message annotations user-property-x"
    assert told["Payload"].startswith("Payload hihi taken amqp.value")
    assert len(rows) == 6
    (row,) = lines(wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", RICH, "--explain", "--format", "jsonl")[1])
    assert len(row["values"]) == 6


def test_explain_on_a_terminal_fits(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "wirefmt.cli", "convert", "--from", "mqtt5", "--to", "amqp10", "--explain", RICH],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, env=os.environ | {"COLUMNS": "100", "TERM": "xterm"},
    ) as command:  # fmt: skip
        os.close(slave)
        told = b""
        while chunk := read_terminal(master):
            told += chunk
        assert command.stdout is not None
        assert command.stdout.read().startswith(b"0053")
    os.close(master)
    assert b"durable" in told
    assert b"\x1b[" in told  # colours


def read_terminal(master: int) -> bytes:
    try:
        return os.read(master, 1 << 16)
    except OSError:  # the other end has closed
        return b""


def test_lossless(wirefmt: Callable[..., Any]) -> None:
    assert wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", "--lossless", PUBLISH)[0] == 0
    code, out, err = wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", "--lossless", RICH)
    assert (code, out) == (1, "")
    assert "Retain dropped" in err
    assert "without --lossless it is converted" in err


def test_dialects_and_options(wirefmt: Callable[..., Any]) -> None:
    assert list(convert.DIALECTS)[:2] == ["documented", "rabbitmq-4.3"]
    # correlation_id "x" with NUL behind: no shortstr by the document, one by the server
    message = "005373d00000000c00000006404040404040".replace("404040404040", "4040404040a1027800") + "005375a000"
    size = len(bytes.fromhex("00000006" + "4040404040a1027800"))
    message = message.replace("d00000000c", f"d0{size:08x}")
    told = {
        d: wirefmt("convert", "--from", "amqp10", "--to", "amqp091", message, "--dialect", d, "-q")[1]
        for d in convert.DIALECTS
    }
    assert "027800" not in told["documented"].replace("000000", "")
    assert "027800" in told["rabbitmq-4.3"]
    # Response Topic r/é
    packet = "30 0e 0001 74 08 08 0005 722f c3a9 20 6869".replace(" ", "")
    packet = f"30{len(bytes.fromhex(packet)) - 2:02x}" + packet[4:]
    for options, address in (
        ((), "/exchanges/amq.topic/r.%C3%A9%20"),
        (("--mqtt-exchange", "mine"), "/exchanges/mine/r.%C3%A9%20"),
        (("--topics", "unchanged"), "/exchanges/amq.topic/r%2F%C3%A9%20"),
        (("--no-percent-encoding",), "/exchanges/amq.topic/r.é "),
    ):
        code, out, _ = wirefmt("convert", "--from", "mqtt5", "--to", "amqp10", packet, *options)
        assert code == 0
        assert address.encode() in bytes.fromhex(out)


# ---- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "--to"),
        (("--to", "amqp10", PUBLISH), 2, "--from amqp10|amqp091|mqtt5"),
        (("--to", "amqp10", "--from", "mqtt5", "zz"), 2, "'zz' is neither hexadecimal digits nor a file of it"),
        (("--to", "amqp10", "--from", "mqtt5", "--input", "base64", "?"), 2, "'?' is neither base64 nor a file of it"),
        (("--to", "amqp10", "--from", "mqtt5", "--input", "raw", "no.bin"), 1, "no.bin: No such file"),
        (("--to", "amqp10", "--from", "mqtt5", "--dialect", "x", PUBLISH), 2, "'x' is not one of documented"),
        (("--to", "mqtt5", "--from", "amqp10", MESSAGE), 2, "--routing-key"),
        (("--to", "amqp10", "--from", "mqtt5", "c000"), 1, "not a PUBLISH"),
        (("--to", "amqp10", "--from", "mqtt5", "30ff"), 1, "--from mqtt311"),
        (("--to", "amqp10", "--from", "mqtt311", "c000"), 1, "Pingreq is not a message"),
        (("--to", "amqp10", "--from", "amqp091", MESSAGE), 1, "content header frame"),
        (("--to", "amqp091", "--from", "amqp10", "005375a004"), 1, "one transfer frame"),
        (("--to", "amqp10", "--from", "mqtt5", "--format", "raw", PUBLISH, PUBLISH), 2, "one message"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(wirefmt: Callable[..., Any], arguments: Any, code: Any, told: str) -> None:
    found, out, err = wirefmt("convert", *arguments)
    assert (found, out) == (code, "")
    assert told in err
    assert "Traceback" not in err


def test_a_refused_message_names_its_rule_and_the_others_go_on(wirefmt: Callable[..., Any]) -> None:
    refused = "005370c0020142"  # no body
    code, out, err = wirefmt("convert", "--from", "amqp10", "--to", "amqp091", refused, MESSAGE)
    assert (code, out) == (1, f"{CONTENT}\n")
    assert "(rule amqp10:body-missing)" in err
    given = "".join(json.dumps({"protocol": "amqp10", "raw": {"hex": h}}) + "\n" for h in (refused, MESSAGE)).encode()
    code, out, _ = wirefmt("convert", "--input", "jsonl", "--to", "amqp091", "--format", "jsonl", given=given)
    assert (code, [row.get("rule") for row in lines(out)]) == (1, ["amqp10:body-missing", None])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 1: not JSON"),
        (b"[]", "line 1: no message"),
        (b'{"protocol": "mqtt5"}', "decode --filter"),
        (b'{"protocol": "nsq", "raw": "x"}', "protocol 'nsq' is not one of"),
        (b'{"raw": {"hex": "zz"}}', "raw is a text"),
        (b'{"raw": {"base64": "?"}}', "raw is a text"),
        (b'{"raw": 1}', "raw is a text"),
        (b'{"raw": "x"}', "protocol None is not one of"),
    ],
)
def test_lines_that_cannot_be_meant(wirefmt: Callable[..., Any], line: str, told: str) -> None:
    code, out, err = wirefmt("convert", "--input", "jsonl", "--to", "amqp10", given=line)
    assert (code, out) == (2, "")
    assert told in err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    many = tmp_path / "many.jsonl"
    many.write_text((json.dumps({"protocol": "mqtt5", "raw": {"hex": PUBLISH}}) + "\n") * 20_000)
    command = f"{sys.executable} -m wirefmt.cli convert --input jsonl --to amqp10 {many} | head -n 1"
    told = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False, text=True)
    assert (told.returncode, told.stdout, told.stderr) == (0, f"{MESSAGE}\n", "")


# ---- captures


@pytest.mark.parametrize("to", convert.PROTOCOLS)
def test_decode_as(wirefmt: Callable[..., Any], tmp_path: Path, to: Any) -> None:
    import pyarrow as pa

    source = SAMPLES / "rabbitmq-pyamqp-amqp091.pcap"
    assert wirefmt("decode", source, "--as", to, "-o", tmp_path / "m.parquet") == (0, b"".decode(), "")
    made = pyarrow.parquet.read_table(tmp_path / "m.parquet")
    with capture.read(source, raw=True) as reader:
        expected = pa.Table.from_batches([convert.convert_table(pa.record_batch(b), to=to) for b in reader])
    assert made.equals(expected)


def test_decode_as_for_people(wirefmt: Callable[..., Any]) -> None:
    code, out, _ = wirefmt("decode", SAMPLES / "rabbitmq-rhea-amqp10.pcap.gz", "--as", "amqp091")
    rows = out.splitlines()
    assert code == 0
    assert sum(" => 02000100" in row for row in rows) == 133
    assert sum("; not converted: sections are out of order" in row for row in rows) == 3


def test_decode_as_with_options(wirefmt: Callable[..., Any]) -> None:
    source = SAMPLES / "mosquitto-paho-v5.pcap"
    call = (
        "decode",
        source,
        "--as",
        "amqp10",
        "--filter",
        "mqtt.response_topic is not None",
        "--columns",
        "mqtt,converted",
    )
    rows = lines(wirefmt(*call, "--format", "jsonl", "--mqtt-exchange", "mine", "--dialect", "rabbitmq-4.3")[1])
    # what a server sent has a Subscription Identifier, which that server refuses
    assert {row["converted"].get("rule") for row in rows} == {None, "mqtt5>amqp10 subscription-identifier"}
    for row in (row for row in rows if "rule" not in row["converted"]):
        assert b"/exchanges/mine/" in octets_of(row["converted"]["raw"])
    code, _, err = wirefmt("decode", source, "--columns", "converted")
    assert (code, "no column 'converted'" in err) == (2, True)
    assert wirefmt("decode", source, "--as", "nsq")[0] == 2
    for option in (("--dialect", "documented"), ("--topics", "unchanged"), ("--no-percent-encoding",)):
        code, out, err = wirefmt("decode", source, *option)
        assert (code, out, f"{option[0]} is for --as" in err) == (2, "", True)


def test_octets_are_a_column(wirefmt: Callable[..., Any]) -> None:
    source = SAMPLES / "mosquitto-paho-v5.pcap"
    for arguments in (("--raw",), ("--columns", "kind,raw"), ("--filter", "raw is not None")):
        rows = lines(wirefmt("decode", source, "--format", "jsonl", *arguments)[1])
        assert {row["kind"] for row in rows if "raw" in row} == {"PUBLISH"}
    assert not any("raw" in row for row in lines(wirefmt("decode", source, "--format", "jsonl")[1]))


def test_help_has_examples(wirefmt: Callable[..., Any]) -> None:
    code, out, _ = wirefmt("convert", "--help")
    assert (code, PUBLISH in out, "--explain" in out) == (0, True, True)
