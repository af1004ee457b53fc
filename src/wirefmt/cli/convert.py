"""`wirefmt convert`: single messages between AMQP 1.0, AMQP 0.9.1 and MQTT 5.0."""

from __future__ import annotations

import base64
import sys
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import rich_click as click

from wirefmt.spec.secrets import SHOWN

from .messages import INPUTS, SOURCES, BadMessage, Input, read_inputs
from .output import open_output
from .text import compact_json, console, octets_for_json, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from wirefmt.convert import Conversion, Loss, Row

TARGETS = ("amqp10", "amqp091", "mqtt5")
FORMATS = ("hex", "base64", "raw", "jsonl", "text")

#: Bytes of a value that --explain shows.
_SHOWN = 60


class _Dialect(click.ParamType[str]):
    """A name of wirefmt.convert.DIALECTS, looked up lazily: neither --help nor the default loads the compiled core."""

    name = "dialect"

    def convert(self, value: str, param: Any, ctx: Any) -> str:
        if param is not None and value == param.default:
            return value
        from wirefmt.convert import DIALECTS

        if value not in DIALECTS:
            self.fail(f"{value!r} is not one of {', '.join(DIALECTS)}.", param, ctx)
        return value


def conversion_options(command: Any) -> Any:
    """Options of the conversion, for every command that converts."""
    for decorate in (
        click.option(
            "--no-percent-encoding", "percent_encoding", flag_value=False, default=True, panel="Conversion",
            help="Write and read names in AMQP 1.0 addresses without percent-encoding.",
        ),
        click.option(
            "--topics", type=click.Choice(["translated", "sparkplug", "unchanged"]), default="translated",
            show_default=True, panel="Conversion",
            help="A routing key has . for / and * for + of an MQTT topic; sparkplug also keeps the version in spBv1.0/.",
        ),
        click.option(
            "--mqtt-exchange", default="amq.topic", show_default=True, metavar="NAME", panel="Conversion",
            help="The exchange of MQTT topics, in reply-to addresses.",
        ),
        click.option(
            "--dialect", type=_Dialect(), default="documented", show_default=True, metavar="NAME", panel="Conversion",
            help="The set of rules: documented (RabbitMQ's published tables) or rabbitmq-4.3, rabbitmq-3.13 (as those "
            "servers do).",
        ),
    ):  # fmt: skip
        command = decorate(command)
    return command


@click.command()
@click.argument("inputs", nargs=-1, metavar="[MESSAGE]...")
@click.option("--from", "source", type=click.Choice(list(SOURCES)), help="Protocol of the message.", panel="Messages")
@click.option("--to", "to", type=click.Choice(TARGETS), required=True, help="Protocol of the result.", panel="Messages")
@click.option(
    "--input", "form", type=click.Choice(INPUTS), default="hex", show_default=True, panel="Messages",
    help="Form of MESSAGE: text in hex or base64, or a file with such text; a file with the bytes; a file of JSON lines.",
)  # fmt: skip
@click.option(
    "--routing-key", metavar="KEY", panel="Messages",
    help="The routing key of the message; becomes the topic of a PUBLISH.",
)  # fmt: skip
@conversion_options
@click.option(
    "--expose-credentials", is_flag=True, panel="Output",
    help="Show values with secret names, such as password (by default: ***).",
)  # fmt: skip
@click.option("--lossless", is_flag=True, help="Fail if anything would be lost.", panel="Conversion")
@click.option(
    "--explain", is_flag=True, panel="Output",
    help="List every value and its rule, on standard error; with jsonl, in each object.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Do not report losses on standard error.", panel="Output")
@click.option("-o", "--out", metavar="OUT", help="A file; by default standard output.", panel="Output")
@click.option(
    "--format", "fmt", type=click.Choice(FORMATS), default="hex", show_default=True, panel="Output",
    help="hex and base64: one message per line; raw: one message; jsonl: with losses; text: readable.",
)  # fmt: skip
@click.option_panel("Messages", help="The input, as in: --from mqtt5 --to amqp10 --input raw packet.bin")
@click.option_panel("Conversion", help="The conversion, as in: --dialect rabbitmq-4.3 --mqtt-exchange my.topics")
@click.option_panel("Output", help="The output, as in: --explain --format text")
def convert(
    inputs: tuple[str, ...],
    source: str | None,
    to: str,
    form: str,
    routing_key: str | None,
    lossless: bool,
    explain: bool,
    expose_credentials: bool,
    quiet: bool,
    out: str | None,
    fmt: str,
    **options: Any,
) -> int:
    """Convert messages between AMQP 1.0, AMQP 0.9.1 and MQTT 5.0, as RabbitMQ does.

    A MESSAGE is in the form that the protocol sends: for MQTT a PUBLISH packet; for AMQP 1.0 the sections of a message, or its
    transfer frame; for AMQP 0.9.1 a content header frame and its body frames, optionally after the method frame. Results have
    the same form. Without MESSAGE, standard input is read. For captures use wirefmt decode --as.

    [b]Examples[/b]

    \b
    wirefmt convert --from mqtt5 --to amqp10 300a0003612f620032312e35
    wirefmt convert --from mqtt5 --to amqp091 --explain --input raw packet.bin
    xxd -p m.bin | wirefmt convert --from amqp10 --to mqtt5 --routing-key a.b
    wirefmt convert --to amqp10 --input jsonl m.jsonl --format jsonl -o n.jsonl
    """
    failed = False
    if fmt == "raw":
        if out is None and sys.stdout.isatty():
            raise click.UsageError("--format raw is not for a terminal: use -o FILE, a pipe, or --format hex")
        if len(inputs) > 1 or form == "jsonl":
            raise click.UsageError("--format raw is for one message: several could not be separated")
    with open_output(out) as sink:
        for given in read_inputs(inputs, form, source):
            try:
                key = routing_key if routing_key is not None else given.key()
                result = _convert(given, to, key, lossless=lossless, explain=explain or fmt == "jsonl", **options)
            except _Failure as fault:
                failed = True
                if fmt == "jsonl":
                    sink.write(f"{compact_json({'error': fault.reason, 'rule': fault.rule})}\n".encode())
                else:
                    click.echo(f"wirefmt convert: {given.name}: {fault}", err=True)
                continue
            _WRITE[fmt](sink, result, _Shown(explain, expose_credentials))
            if fmt != "jsonl":
                if explain:
                    _explain(given, result, options["dialect"], expose_credentials)
                elif not quiet:
                    for loss in result.losses:
                        click.echo(f"wirefmt convert: {printable(str(loss))}", err=True)
    return int(failed)


class _Shown(NamedTuple):
    """Options of what is shown in addition to the message: values, secrets."""

    explain: bool
    exposed: bool


class _Failure(Exception):
    """Why a message was refused, by which rule, and a hint."""

    def __init__(self, reason: str, rule: str = "", hint: str = "") -> None:
        rule_ = f" (rule {rule})" if rule else ""
        super().__init__(f"{printable(reason)}{rule_}{f'; {hint}' if hint else ''}")
        self.reason = reason
        self.rule = rule


def _convert(given: Input, to: str, key: str | None, **options: Any) -> Conversion:
    from wirefmt import convert as engine
    from wirefmt.errors import ConversionError

    try:
        wire = given.wire()
    except BadMessage as fault:
        raise _Failure(str(fault)) from None
    if to == "mqtt5" and wire.protocol != "mqtt5" and not key:
        raise click.UsageError(
            "the topic of a PUBLISH is the routing key the message was published with: --routing-key plant.line-1"
        )
    try:
        return engine.convert(wire, to=to, routing_key=key or _topic_key(wire, options), **options)  # type: ignore[arg-type]
    except ConversionError as fault:
        if fault.losses:
            lost = "; ".join(printable(str(loss)) for loss in fault.losses)
            raise _Failure(fault.reason, hint=f"{lost}; without --lossless it is converted") from None
        undecodable = fault.rule.endswith((":undecodable", ":not-publish"))
        raise _Failure(fault.reason, fault.rule, given.hint if undecodable else "") from None


def _topic_key(wire: Any, options: dict[str, Any]) -> str:
    """The routing key of an MQTT message, which its topic contains."""
    from wirefmt import convert as engine
    from wirefmt import mqtt
    from wirefmt.errors import DecodeError

    if wire.protocol != "mqtt5":
        return ""
    try:
        packet = mqtt.decode(wire.octets, version=5, strictness="lax")
    except DecodeError:
        return ""
    return engine.routing_key_of(packet.topic_name, options["topics"]) if isinstance(packet, mqtt.Publish) else ""


# ---- what comes out


def _write_line(encode: Callable[[bytes], str]) -> Callable[[IO[bytes], Conversion, _Shown], None]:
    def write(sink: IO[bytes], result: Conversion, shown: _Shown) -> None:
        sink.write(f"{encode(result.wire.frames())}\n".encode())

    return write


def _write_octets(sink: IO[bytes], result: Conversion, shown: _Shown) -> None:
    sink.write(result.wire.frames())


def _write_text(sink: IO[bytes], result: Conversion, shown: _Shown) -> None:
    message = result.message
    if result.body is not None:
        sink.write(f"{message.properties!r}\n".encode())
        sink.write(f"{printable(result.body.decode('utf-8', 'backslashreplace'))}\n".encode())
    else:
        sink.write(f"{message!r}\n".encode())


def _write_json(sink: IO[bytes], result: Conversion, shown: _Shown) -> None:
    row: dict[str, Any] = {"protocol": result.protocol, "raw": {"hex": result.wire.frames().hex()}}
    if lost := [_loss(loss, shown.exposed) for loss in result.losses if loss.what != "taken"]:
        row["losses"] = lost
    if shown.explain:
        row["values"] = [_loss(loss, shown.exposed) for loss in result.losses]
    sink.write(f"{compact_json(row)}\n".encode())


def _loss(loss: Loss, exposed: bool) -> dict[str, Any]:
    shown = {
        "rule": loss.rule, "field": loss.field, "key": loss.key, "type": loss.type, "what": loss.what,
        "reason": loss.reason, "value": octets_for_json(_octets(loss, exposed)),
    }  # fmt: skip
    return {name: value for name, value in shown.items() if value is not None}


def _octets(loss: Loss, exposed: bool) -> bytes:
    """The value of a loss, or asterisks."""
    from wirefmt.secrets import HiddenBytes

    return SHOWN.encode() if isinstance(loss.value, HiddenBytes) and not exposed else loss.value


_WRITE: dict[str, Callable[[IO[bytes], Conversion, _Shown], None]] = {
    "hex": _write_line(bytes.hex),
    "base64": _write_line(lambda octets: base64.b64encode(octets).decode()),
    "raw": _write_octets,
    "jsonl": _write_json,
    "text": _write_text,
}


# ---- --explain


def _explain(given: Input, result: Conversion, dialect: str, exposed: bool) -> None:
    """A table on standard error: each value of the source and the result of its rule."""
    from rich.table import Table
    from rich.text import Text

    rows = _rows(dialect)
    sys.stdout.flush()
    grid = Table(title=f"{given.name}: {given.source} to {result.protocol}, {dialect}", title_justify="left",
                 title_style="bold", header_style="dim", box=None, pad_edge=False)  # fmt: skip
    for name in ("field", "value", "what", "to", "rule"):
        grid.add_column(name, overflow="fold")
    for loss in result.losses:
        row = rows.get(loss.rule)
        to = _target(row) if row is not None and loss.what != "dropped" else ""
        what = loss.what if loss.what == "taken" or loss.reason == "the rule says so" else f"{loss.what}: {loss.reason}"
        key = "" if loss.key is None else f"[{printable(loss.key)}]"
        style = "" if loss.what == "taken" else "red" if loss.what == "dropped" else "yellow"
        cells = (loss.field + key, _value(loss, exposed), what, to, loss.rule.partition(" ")[2] or "-")
        grid.add_row(*(Text(cell, style) for cell in cells))
    console(stderr=True).print(grid if result.losses else Text("no values are reported: the bytes are unchanged"))


def _rows(dialect: str) -> dict[str, Row]:
    """The rows of the dialect by the ids in losses."""
    from wirefmt.convert import DIALECTS, tables_of

    return {
        f"{table.source}>{table.target} {'' if row.section else 'types/'}{row.id}": row
        for table in tables_of(DIALECTS[dialect])
        for row in (*table.fields, *table.types)
    }


def _target(row: Row) -> str:
    from wirefmt.convert.vocabulary import How
    from wirefmt.convert.words import place

    how = "" if row.how in (How.SAME, How.BY_TYPE) else f": {row.how.text}"
    return f"{place(row.to_section, row.to_field) or row.to_type}{how}"


def _value(loss: Loss, exposed: bool) -> str:
    """A readable value: numbers as numbers, text as text, other bytes in hex; asterisks for a secret."""
    octets = _octets(loss, exposed)
    if octets is not loss.value:
        return SHOWN
    if loss.type == "bits" and loss.field in _FLAGS:
        shift, mask = _FLAGS[loss.field]
        return str(octets[0] >> shift & mask)
    if loss.type == "boolean":
        return "false" if octets in (b"", b"\0") else "true"
    if loss.type in _NUMBERS and len(octets) <= 8:
        return str(int.from_bytes(octets, signed=loss.type in _SIGNED))
    try:
        text = octets.decode()
        text = printable(text) if text.isprintable() or "\n" in text else octets.hex(" ")
    except UnicodeDecodeError:
        text = octets.hex(" ")
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


_FLAGS = {"Dup": (3, 1), "QoS": (1, 3), "Retain": (0, 1)}  # the first byte of a packet
_SIGNED = ("byte", "short", "int", "long", "timestamp")
_NUMBERS = (*_SIGNED, "ubyte", "ushort", "uint", "ulong", "octet", "bits", "bool")
