"""`wirefmt serve`: the broker in memory, with a live table on a terminal and otherwise log lines."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from .settings import as_toml, assigned, joined, merged, names_of, written

if TYPE_CHECKING:
    import asyncio

    from wirefmt.broker import Broker, Options
    from wirefmt.broker.faults import Script

    from .watch import Watch

#: The port of nsqlookupd's HTTP, which is served beside those of the protocols.
LOOKUP_PORT: Final = 4161

#: Additional listeners if a certificate is given.
TLS_PORTS: Final = {"mqtt+tls": 8883, "amqp+tls": 5671}

#: Modules with an event loop.
LOOPS: Final = ("asyncio", "uvloop")

#: Seconds that clients have to answer when the broker stops.
GRACE: Final = 2.0

#: Options of the protocols' brokers that `users` and `permissions` set, or that are functions.
SEPARATE: Final = frozenset(("users", "accounts", "permissions", "authenticate", "authorise"))

#: Options of connections that are the broker's own: it acknowledges, and keeps no journal.
OF_THE_BROKER: Final = frozenset(("automatic", "journaled"))

#: Types of the settings that are in no table. `deflate` is an inline table of its own: `{}`, or members of Deflate.
PLAIN: Final = (str, int, float, float | None, Collection[str], bool | Collection[str])

#: Settings of the table `limits` that are not members of limits.Limits.
IN_LIMITS: Final = ("clients", "messages", "bytes")

#: The options of each protocol that --messages and --bytes set.
MOST_MESSAGES: Final = {
    "limits": "queue_messages", "mqtt": "queue_messages", "nsq": "messages", "rocketmq": "queue_messages",
    "phpmq": "messages",
}  # fmt: skip
MOST_BYTES: Final = {
    "limits": "queue_bytes", "mqtt": "queue_bytes", "nsq": "memory", "rocketmq": "memory", "phpmq": "memory",
}  # fmt: skip


@click.command()
@click.option("--mqtt", type=click.IntRange(0, 65535), metavar="PORT", help="MQTT.", panel="Ports")
@click.option("--amqp", type=click.IntRange(0, 65535), metavar="PORT", help="AMQP 0.9.1 and 1.0.", panel="Ports")
@click.option("--nsq", type=click.IntRange(0, 65535), metavar="PORT", help="NSQ.", panel="Ports")
@click.option("--rocketmq", type=click.IntRange(0, 65535), metavar="PORT", help="RocketMQ, name server and broker.",
              panel="Ports")  # fmt: skip
@click.option("--phpmq", type=click.IntRange(0, 65535), metavar="PORT", help="PHPMQ.", panel="Ports")
@click.option("--listen", multiple=True, metavar="NAME=PORT",
              help="Another listener: mqtt+tls, mqtt+ws, mqtt+wss, amqp+tls, amqp10, amqp10+tls, amqp10+ws, amqp10+wss, "
              "nsqlookupd, rocketmq+tls, phpmq+tls.", panel="Ports")  # fmt: skip
@click.option("--host", metavar="HOST", help="The address to listen on. \\[default: 127.0.0.1]", panel="Ports")
@click.option("--tls-cert", metavar="FILE", help="A certificate chain in PEM. It adds MQTT on 8883 and AMQP 0.9.1 on 5671, "
              "and NSQ clients may ask for TLS.", panel="Ports")  # fmt: skip
@click.option("--tls-key", metavar="FILE", help="The private key, if it is in another file.", panel="Ports")
@click.option("--tls-client-ca", metavar="FILE", help="Clients need a certificate that one of this file has signed.",
              panel="Ports")  # fmt: skip
@click.option("--tls-keylog", metavar="FILE", help="Append the secrets of TLS to this file, so that captures can be decrypted.",
              panel="Ports")  # fmt: skip
@click.option("--user", "users", multiple=True, metavar="NAME:PASSWORD",
              help="A user; others are refused. MQTT, AMQP (PLAIN; SCRAM-SHA-256 for 1.0), NSQ (secret of AUTH), "
              "RocketMQ (access key and secret key).", panel="Limits")  # fmt: skip
@click.option("--origin", "origins", multiple=True, metavar="ORIGIN",
              help="A web page that may connect over WebSocket, as https://panel.example.", panel="Limits")  # fmt: skip
@click.option("--proxy-protocol", is_flag=True, help="Clients come through a proxy that sends a PROXY header, version 1 or 2.",
              panel="Limits")  # fmt: skip
@click.option("--clients", type=click.IntRange(min=1), metavar="N", help="Maximum clients of each listener. \\[default: 10000]",
              panel="Limits")  # fmt: skip
@click.option(
    "--messages", type=click.IntRange(min=1), metavar="N", help="Maximum messages in a queue.", panel="Limits"
)
@click.option("--bytes", "octets", type=click.IntRange(min=1), metavar="N", help="Maximum bytes of the messages in a queue.",
              panel="Limits")  # fmt: skip
@click.option("--loop", type=click.Choice(LOOPS), help="The event loop. uvloop has to be installed. \\[default: asyncio]",
              panel="Limits")  # fmt: skip
@click.option("--record", metavar="FILE.pcapng", help="Record all connections, in plaintext.", panel="Test")
@click.option("--fault", "faults", multiple=True, metavar="PROTOCOL:NAME=VALUE,...",
              help="A fault on purpose, such as mqtt:cut_after=10; a wrong name lists all.",
              panel="Test")  # fmt: skip
@click.option("--faults", "script", metavar="FILE.toml", help="A script of faults.", panel="Test")
@click.option("--config", metavar="FILE.toml", help="All options from a file. Options of the command line take precedence.",
              panel="Settings")  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE",
              help="A setting as in the file, such as connection.mqtt.receive_maximum=20.", panel="Settings")  # fmt: skip
@click.option("--settings", "show", is_flag=True, help="Print a file with all settings and their defaults, and exit.",
              panel="Settings")  # fmt: skip
@click.option_panel("Ports", help="The ports of the protocols; 0 is any free port: --mqtt 0 --listen mqtt+ws=8083")
@click.option_panel("Limits", help="Who may connect, and how much is kept: --user alice:secret --messages 1000")
@click.option_panel("Settings", help="Everything else: --set mqtt.overflow=refuse --set connection.amqp.frame_max=8192")
@click.option_panel("Test", help="For tests: --record session.pcapng --fault mqtt:delay=0.2")
def serve(
    host: str | None,
    listen: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    tls_keylog: str | None,
    users: tuple[str, ...],
    origins: tuple[str, ...],
    proxy_protocol: bool,
    clients: int | None,
    messages: int | None,
    octets: int | None,
    loop: str | None,
    record: str | None,
    faults: tuple[str, ...],
    script: str | None,
    config: str | None,
    assignments: tuple[str, ...],
    show: bool,
    **ports: int | None,
) -> int:
    """Run a broker in memory that speaks MQTT, AMQP 0.9.1, AMQP 1.0, NSQ, RocketMQ and PHPMQ.

    It serves all protocols on their usual ports of 127.0.0.1, or only those whose ports are given. Nothing is stored on disk.
    On a terminal, a live table shows clients, queues and rates; otherwise each event is a line of JSON on standard output. On
    SIGTERM or Ctrl-C each connection ends with its protocol's closing message.

    [b]Examples[/b]

    \b
    wirefmt serve
    wirefmt serve --mqtt 1883 --amqp 5672 --record session.pcapng
    wirefmt serve --user alice:secret --tls-cert chain.pem --tls-key key.pem
    wirefmt serve --mqtt 0 --fault mqtt:lose_acknowledgements=3 | jq .event
    """
    from wirefmt.broker.faults import Fault, Script, Step

    if show:
        print(_all_settings())
        return 0
    settings = _read(config)
    given = {name: port for name, port in ports.items() if port is not None}
    if "amqp" in given:
        given["amqp10"] = given["amqp"]
    for entry in listen:
        name, _, number = entry.partition("=")
        if not number.isdecimal() or int(number) > 65535:
            raise click.UsageError(f"--listen needs NAME=PORT, not {entry!r}")
        given[name] = int(number)
    for key, value in (
        ("host", host), ("loop", loop), ("record", record), ("ports", given), ("origins", list(origins)),
        ("proxy_protocol", proxy_protocol),
        ("users", dict(_user(user) for user in users)),
        ("tls", {name: value for name, value in
                 (("certificate", tls_cert), ("key", tls_key), ("client_ca", tls_client_ca), ("keylog", tls_keylog))
                 if value is not None}),
        ("limits", {k: v for k, v in (("clients", clients), ("messages", messages), ("bytes", octets)) if v is not None}),
    ):  # fmt: skip
        if value:
            joined(settings, {key: value})
    try:
        for text in assignments:
            joined(settings, assigned(text))
        plan = _script(config, {name: settings.pop(name) for name in ("seed", "fault") if name in settings})
        if script is not None:
            plan = _script(script, _read(script))
        steps = [Step(0.0, None, Fault.parse(text), None) for text in faults]
        options = _options(settings)
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    import asyncio

    with asyncio.Runner(loop_factory=_loop_factory(settings.get("loop", "asyncio"))) as runner:
        return runner.run(_serve(options, settings.get("record"), Script(plan.seed, (*steps, *plan.steps))))


# ---- settings


def _loop_factory(name: Any) -> Callable[[], asyncio.AbstractEventLoop]:
    if name not in LOOPS:
        raise click.UsageError(f"loop must be {' or '.join(LOOPS)}, not {name!r}")
    try:
        module = importlib.import_module(name)
    except ImportError:
        raise click.UsageError(f"--loop {name} needs {name}: pip install 'wirefmt[{name}]'") from None
    return module.new_event_loop  # type: ignore[no-any-return]


def _read(path: str | None) -> dict[str, Any]:
    import tomllib

    if path is None:
        return {}
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise click.UsageError(f"{path}: {error}") from None


def _script(path: str | None, data: dict[str, Any]) -> Script:
    from wirefmt.broker.faults import script_of

    try:
        return script_of(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _user(text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not colon:
        raise click.UsageError("--user needs NAME:PASSWORD")
    return name, password


def _options(settings: Mapping[str, Any]) -> Options:
    """The options of the broker. Raises ValueError, TypeError or OSError, which say what is wrong."""
    from wirefmt.broker import Options
    from wirefmt.broker.listeners import NAMES, PORTS, SCHEMES
    from wirefmt.errors import suggest

    plain = _plain(Options())
    tables = ("ports", "users", "permissions", "tls", "connection", "limits", *NAMES)
    for name in settings:
        if name not in (known := [*plain, "loop", "record", *tables]):
            raise ValueError(f"unknown setting {name!r}; {suggest(name, known)}")
    for name in tables:
        if not isinstance(settings.get(name, {}), dict):
            raise ValueError(f"{name} must be a table, not {settings[name]!r}")
    tls = _context(settings["tls"]) if "tls" in settings else None
    usual = {**PORTS, "nsqlookupd": LOOKUP_PORT, **(TLS_PORTS if tls is not None else {})}
    ports = dict(settings.get("ports") or usual)
    for name, port in ports.items():
        if name not in SCHEMES:
            raise ValueError(f"unknown listener {name!r}; {suggest(name, list(SCHEMES))}")
        if type(port) is not int or not 0 <= port <= 65535:
            raise ValueError(f"the port of {name} must be an integer from 0 to 65535, not {port!r}")
    for name, password in settings.get("users", {}).items():
        if not isinstance(password, str):
            raise ValueError(f"the password of {name!r} must be a string")
    options = Options(
        ports=ports,
        tls=tls,
        users=settings.get("users"),
        permissions=settings.get("permissions"),
        grace=GRACE,
        history=0,  # nobody looks at it
        connection=_connections(settings.get("connection", {})),
    )
    options = merged(options, {name: value for name, value in settings.items() if name in plain}, "the settings")
    limits = dict(settings.get("limits", {}))
    clients, *most = (limits.pop(name, None) for name in IN_LIMITS)
    if clients is not None:
        options = merged(options, {"connections": clients}, "limits")
    changes: dict[str, Any] = {}
    for section in ("limits", *NAMES):
        given = limits if section == "limits" else dict(settings.get(section, {}))
        for value, table in zip(most, (MOST_MESSAGES, MOST_BYTES), strict=True):
            if value is not None and section in table:
                given.setdefault(table[section], value)
        have = getattr(options, section)
        if section == "limits":
            known = [*IN_LIMITS, *names_of(have)]
            for key in given:
                if key not in known:
                    raise ValueError(f"unknown option {key!r} in limits; {suggest(key, known)}")
        changes[section] = merged(have, given, section, SEPARATE)
    return replace(options, **changes)


def _plain(options: Options) -> list[str]:
    """The settings that are in no table."""
    return [name for name, hint in names_of(options).items() if hint in PLAIN or name == "deflate"]


def _connection_options() -> dict[str, Any]:
    """The default options of each protocol's connections."""
    from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq

    return {
        "mqtt": mqtt.ConnectionOptions(),
        "amqp": amqp091.ConnectionOptions(),
        "amqp10": amqp10.ConnectionOptions(),
        "nsq": nsq.ConnectionOptions(),
        "rocketmq": rocketmq.ConnectionOptions(),
        "phpmq": phpmq.ConnectionOptions(),
    }


def _connections(tables: Mapping[str, Any]) -> dict[str, Any]:
    """`Options.connection`."""
    from wirefmt.errors import suggest

    known = _connection_options()
    for name, table in tables.items():
        if name not in known:
            raise ValueError(f"unknown protocol {name!r} in connection; {suggest(name, list(known))}")
        if not isinstance(table, dict):
            raise ValueError(f"connection.{name} must be a table, not {table!r}")
    return {name: merged(known[name], table, f"connection.{name}", OF_THE_BROKER) for name, table in tables.items()}


def _context(tls: Mapping[str, Any]) -> Any:
    import ssl

    from wirefmt.errors import suggest

    known = ("certificate", "key", "client_ca", "client_certificates", "keylog")
    for name, value in tls.items():
        if name not in known:
            raise ValueError(f"unknown option {name!r} in tls; {suggest(name, known)}")
        if not isinstance(value, str) and not (name == "key" and value is None):
            raise ValueError(f"tls.{name} must be a string, not {value!r}")
    if "certificate" not in tls:
        raise ValueError("tls needs a certificate: the name of a file")
    demand = tls.get("client_certificates", "required")
    if demand not in ("required", "optional"):
        raise ValueError(f"tls.client_certificates must be 'required' or 'optional', not {demand!r}")
    if "client_certificates" in tls and "client_ca" not in tls:
        raise ValueError(
            "tls.client_certificates needs client_ca: the file with the certificates of those who sign them"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        name = "certificate"
        context.load_cert_chain(tls["certificate"], tls.get("key"))
        name = "client_ca"
        if name in tls:
            context.load_verify_locations(tls["client_ca"])
        name = "keylog"
        if name in tls:
            context.keylog_filename = tls["keylog"]
    except OSError as error:  # ssl.SSLError, too
        raise ValueError(f"tls.{name} {tls[name]!r} cannot be used: {error.strerror or error}") from None
    if "client_ca" in tls:
        context.verify_mode = ssl.CERT_REQUIRED if demand == "required" else ssl.CERT_OPTIONAL
    return context


def _all_settings() -> str:
    """A config file with the default of every setting."""
    from wirefmt.broker.listeners import NAMES

    options = _options({"ports": {"mqtt": 0}})
    lines = [f"{name} = {as_toml(getattr(options, name))}" for name in _plain(options)]
    for section in ("limits", *NAMES):
        lines += ["", *written(getattr(options, section), section, SEPARATE)]
    for name, have in _connection_options().items():
        lines += ["", *written(have, f"connection.{name}", OF_THE_BROKER)]
    return "\n".join(lines)


# ---- running


async def _play(broker: Broker, script: Script, watch: Watch) -> None:
    """Run the script of faults; an error of it is reported, and the broker goes on."""
    from wirefmt.broker.faults import play

    try:
        await play(broker, script)
    except OSError as error:  # a restart could not get its ports again
        watch.say("script_failed", error=str(error))


async def _serve(options: Options, record: str | None, script: Script) -> int:
    import asyncio

    from wirefmt.broker import Broker
    from wirefmt.broker.recording import Recorder

    from .watch import Watch

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    recorder = Recorder(record) if record else None
    watch = Watch(recorder)
    task: asyncio.Task[None] | None = None
    try:
        async with Broker(replace(options, tap=watch.tap)) as broker:
            if script.steps:
                task = loop.create_task(_play(broker, script, watch))
            await watch.run(broker, stop)
            watch.say("stopping", clients=len(broker.clients))
            for number in signals:  # a second one ends the process immediately
                loop.remove_signal_handler(number)
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    finally:
        if recorder is not None:
            recorder.close()
    if recorder is not None and recorder.error is not None:
        print(f"wirefmt: {record}: the recording ended early: {recorder.error.strerror}", file=sys.stderr)
        return 1
    watch.say("stopped")
    return 0
