"""Run a client's own test suite against the broker in memory, in a separate network: `host.py SUITE.toml FOLDER WORK`.

WORK/result.json has the outcome of each test, WORK/output.txt the output of the suite.

`unshare` has given this process a network and mounts that nothing else sees. So the broker has the usual ports, names such as a
public test broker's lead to it, and no suite reaches anything else. Beside the broker there is what suites expect of a real one:
RabbitMQ's management and control, a Docker daemon whose containers are the broker, nsqd's HTTP.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from wirefmt.broker import Options, running
from wirefmt.broker.amqp091 import BrokerOptions as AmqpOptions
from wirefmt.broker.amqp10 import Address
from wirefmt.broker.faults import Fault
from wirefmt.broker.messages import Item
from wirefmt.broker.mqtt import BrokerOptions, default_authorise
from wirefmt.broker.queues import Queue
from wirefmt.broker.thread import Running

HERE = Path(__file__).resolve().parent
PORTS = {
    "mqtt": {"mqtt": 1883, "mqtt+tls": 8883, "mqtt+ws": 8080},
    "amqp": {"amqp": 5672, "amqp+tls": 5671},
    "amqp10": {"amqp10": 5672},
    "nsq": {"nsq": 4150, "nsqlookupd": 4161},
    "rocketmq": {"rocketmq": 9876},
}

#: Method and path -> status and body. The arguments are the query, the request's body and the rest of the path.
Answer = tuple[int, Any]
Route = Callable[[dict[str, str], bytes, str], Answer]


def loopback_up() -> None:
    """Activate the loopback interface of this network, which exists but is down (SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = fcntl.ioctl(sock, 0x8913, struct.pack("16sH14x", b"lo", 0))
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))


def lead_here(names: list[str], work: Path) -> None:
    """Make these host names and that of this machine 127.0.0.1, with a hosts file that is mounted over the real one."""
    file = work / "hosts"
    file.write_text(f"127.0.0.1 localhost {' '.join([socket.gethostname(), *names])}\n")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(str(file).encode(), b"/etc/hosts", None, 4096, None):  # MS_BIND
        raise OSError(ctypes.get_errno(), "cannot mount the hosts file")


def certificate(folder: Path, key_name: str = "key.pem", name: str = "certificate.pem") -> tuple[Path, Path]:
    """Make a self-signed certificate for this machine."""
    folder.mkdir(exist_ok=True)
    key, chain = folder / key_name, folder / name
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(chain), "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, chain


def serve_http(port: int, routes: dict[tuple[str, str], Route]) -> ThreadingHTTPServer:
    """Serve the routes in threads. A request goes to the longest path that is a prefix of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            found = [path for method, path in routes if method == self.command and parts.path.startswith(path)]
            status, data = 404, {"message": "NOT_FOUND"}
            if found:
                path = max(found, key=len)
                status, data = routes[self.command, path](query, body, unquote(parts.path[len(path) :]))
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(data, bytes) else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_PUT = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client may close its connection at any time
                super().handle_error(request, client_address)

    server = Server(("", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# ---- services beside a broker


def management(broker: Running) -> None:
    """RabbitMQ's management API on its default port: list and close connections. Our `rabbitmqctl` uses `/rabbitmqctl`."""
    alarms: set[str] = set()
    blocked: list[Any] = []
    router = broker.broker.router

    def clients() -> dict[str, Any]:
        drivers: Any = broker.broker._drivers("amqp")
        return {f"{driver.host.address[0]}:{driver.host.address[1]} -> 127.0.0.1:5672": driver for driver in drivers}

    async def connections() -> list[Any]:
        return [
            {"name": name, "user": start_ok.client_properties.get("user", ""),
             "client_properties": {"connection_name": start_ok.client_properties.get("connection_name")}}
            for name, driver in clients().items() if (start_ok := driver.connection.start_ok) is not None
        ]  # fmt: skip

    async def close(name: str, reason: str = "Closed via management plugin") -> int:
        driver = clients().get(name)
        if driver is None:
            return 404
        driver.update(driver.connection.close(320, f"CONNECTION_FORCED - {reason}"))
        return 204

    def alarm(of: str, on: bool) -> None:
        """Memory and disk have an alarm each. Publishers are blocked until there is none."""
        (alarms.add if on else alarms.discard)(of)
        if on and not blocked:
            blocked.append(broker.broker.faults.start(Fault.of({"protocol": "amqp", "full": "memory"})))
        elif blocked and not alarms:
            broker.broker.faults.stop(blocked.pop())

    async def control(arguments: list[str]) -> Answer:
        """What `rabbitmqctl` does, without the option for the name of the node."""
        match arguments[2:] if arguments[:1] == ["-n"] else arguments:
            case ["set_vm_memory_high_watermark", fraction]:
                alarm("memory", float(fraction) < 0.01)
            case ["eval", program] if found := re.search(
                r"rabbit_alarm:(set|clear)_alarm.*resource_limit, (\w+)", program
            ):
                alarm(found[2], found[1] == "set")
            case ["list_connections", *_]:
                lines = [
                    f'{name}\t{driver.host.address[1]}\t[{{"connection_name","{called}"}}]'
                    if (called := (driver.connection.start_ok.client_properties or {}).get("connection_name"))
                    else f"{name}\t{driver.host.address[1]}\t[]"
                    for name, driver in clients().items()
                    if driver.connection.start_ok is not None
                ]
                return 200, "\n".join(lines).encode()
            case ["close_connection", name, reason]:
                return await close(name, reason), b""
            case ["close_all_connections", reason]:
                for name in clients():
                    await close(name, reason)
            case ["delete_queue", name]:
                router.delete_queue(router.queues[name])
            case [*_, "--help"]:
                pass
            case _:
                return 400, b""
        return 200, b""

    serve_http(15672, {
        ("GET", "/api/connections"): lambda query, body, rest: (200, broker.run(connections())),
        ("DELETE", "/api/connections/"): lambda query, body, rest: (broker.run(close(rest)), b""),
        ("POST", "/rabbitmqctl"): lambda query, body, rest: broker.run(control(json.loads(body))),
    })  # fmt: skip


def docker(ports: Mapping[str, int | None]) -> int:
    """Imitate a Docker daemon that has every image and whose containers are all the broker. Returns its port."""
    known = {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}] for port in ports.values()}
    return serve_http(0, {
        ("POST", "/images/create"): lambda query, body, rest: (200, b""),
        ("POST", "/containers/create"): lambda query, body, rest: (201, {"Id": "broker"}),
        ("POST", "/containers/"): lambda query, body, rest: (204, b""),
        ("GET", "/containers/"): lambda query, body, rest: (200, {"NetworkSettings": {"Ports": known}}),
        ("DELETE", "/containers/"): lambda query, body, rest: (204, b""),
    }).server_port  # fmt: skip


def nsqd_http(broker: Running, port: int) -> ThreadingHTTPServer:
    """The part of nsqd's HTTP API that the tests of clients use."""

    async def publish(topic: str, bodies: list[bytes]) -> Answer:
        broker.broker.nsq.publish(topic, *bodies)
        return 200, b"OK"

    async def create(topic: str) -> Answer:
        broker.broker.nsq.topic(topic)
        return 200, b""

    async def delete(topic: str) -> Answer:
        broker.broker.nsq.topics.pop(topic, None)
        return 200, b""

    return serve_http(port, {
        ("GET", "/ping"): lambda query, body, rest: (200, b"OK"),
        ("POST", "/pub"): lambda query, body, rest: broker.run(publish(query["topic"], [body])),
        ("POST", "/mpub"): lambda query, body, rest: broker.run(publish(query["topic"], body.rstrip(b"\n").split(b"\n"))),
        ("POST", "/topic/create"): lambda query, body, rest: broker.run(create(query["topic"])),
        ("POST", "/topic/delete"): lambda query, body, rest: broker.run(delete(query["topic"])),
    })  # fmt: skip


class QpidTopic:
    """`amq.topic` as in Apache Qpid's broker: a source of that name receives all messages of the exchange.

    In RabbitMQ's addresses of version 2, which our broker has, an exchange cannot be a source.
    """

    NAME = "amq.topic"

    def __init__(self, broker: Running) -> None:
        self.router = broker.broker.router
        self.queues: list[Queue] = []
        self.resolve = broker.broker.amqp10._resolve
        broker.broker.amqp10._resolve = self.resolve_topic  # type: ignore[method-assign]
        self.router.exchange(self.NAME).sinks.append(self)

    def resolve_topic(self, peer: Any, client: Any, terminus: Any, link: Any) -> Any:
        if getattr(terminus, "address", None) != self.NAME:
            return self.resolve(peer, client, terminus, link)
        if not link.sends:
            return Address(self.NAME, ""), terminus
        queue = self.router.make_queue(f"{self.NAME} {len(self.queues)}", owner=peer)
        self.queues.append(queue)
        return Address("", queue.name), terminus

    def wants(self, routing_key: str) -> bool:
        return True

    def put(self, item: Item) -> None:
        for queue in self.queues:
            if self.router.queues.get(queue.name) is queue:
                queue.put(Item(item.published))


class Nsqd(socketserver.StreamRequestHandler):
    """The peer of the program `nsqd` of these suites: the program sends its arguments, and has a broker until it ends."""

    def handle(self) -> None:
        folder, _, arguments = self.rfile.readline().decode().partition(" ")
        given = dict(re.findall(r"-?-([a-z-]+)[= ](\S+)", arguments))
        tls = None
        if "tls-cert" in given:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(Path(folder, given["tls-cert"]), Path(folder, given["tls-key"]))
        defaults = {"tcp-address": ":4150", "http-address": ":4151"}
        port, http = (int(given.get(name, default).rpartition(":")[2]) for name, default in defaults.items())
        with running(Options(ports={"nsq": port}, tls=tls)) as broker:
            server = nsqd_http(broker, http)
            self.rfile.read()
            server.shutdown()


def serve_nsqd() -> None:
    server = socketserver.ThreadingUnixStreamServer("\0nsqd", Nsqd)  # an abstract name, visible in this network only
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


# ---- results


def of_go(output: str, _: Path) -> dict[str, str]:
    """Outcomes in the output of `go test -v`, of tests and subtests."""
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    return {m[2]: words[m[1]] for m in re.finditer(r"^ *--- (PASS|FAIL|SKIP): (\S+)", output, re.MULTILINE)}


def of_junit(_: str, report: Path) -> dict[str, str]:
    """Outcomes in a JUnit report of pytest or mocha. A test that fails and passes on a later try has passed."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname') or ''}::{case.get('name')}".removeprefix("::")
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[name] = "failed" if "failed" in (outcome, found.get(name)) else outcome
    return found


def of_junit_classes(_: str, report: Path) -> dict[str, str]:
    """Outcomes in the report of JUnit's console: classes without their packages, methods without their parameters' types."""
    found: dict[str, str] = {}
    for test, outcome in of_junit("", report.with_suffix("") / "TEST-junit-jupiter.xml").items():
        name = re.sub(r"\(.*?\)", "", test).rpartition(".")[2]
        found[name] = "failed" if "failed" in (outcome, found.get(name)) else outcome
    return found


#: Kind of suite -> the function that reads its outcomes, and the arguments that deselect tests.
KINDS: dict[str, tuple[Callable[[str, Path], dict[str, str]], Callable[[list[str]], list[str]]]] = {
    "go": (of_go, lambda names: [f"-test.skip=^({'|'.join(names)})$"]),
    "examples": (of_go, lambda names: names),
    "java": (of_go, lambda names: names),
    "unittest": (of_go, lambda names: names),
    "pytest": (of_junit, lambda names: [f"--deselect={name}" for name in names]),
    "junit": (of_junit_classes, lambda names: [f"--exclude-classname={name}" for name in names]),
    "mocha": (of_junit, lambda names: ["--invert", "--grep", "|".join(map(re.escape, names))]),
}


def options_of(suite: dict[str, Any], tls: ssl.SSLContext) -> Options:
    """What the broker serves. With `known_users` clients may come without a name, but not with an unknown one. `refused_filters`
    get 0x80 in SUBACK, where permissions answer 0x87. `permissions`, `mqtt`, `amqp` and `stalled` are as in the configuration of
    `wirefmt serve`."""
    ports = {name: port for protocol in suite.get("serves", []) for name, port in PORTS[protocol].items()}
    host = "127.0.0.1" if "rocketmq" in suite.get("serves", []) else ""  # also ::1, unless routes contain the host
    mqtt = BrokerOptions(**suite.get("mqtt", {}))
    if refused := suite.get("refused_filters"):

        def authorise(client: str, deed: str, topic: str) -> int:
            return 0x80 if deed == "subscribe" and topic in refused else default_authorise(client, deed, topic)

        mqtt = replace(mqtt, authorise=authorise)
    users, permissions = suite.get("users"), suite.get("permissions")
    options = Options(
        ports=ports,
        tls=tls,
        users=users,
        permissions=permissions,
        host=host,
        mqtt=mqtt,
        origins=suite.get("origins", ()),
        amqp=AmqpOptions(users=None, **suite.get("amqp", {})),
        stalled=suite.get("stalled", 60.0),
    )
    if known := suite.get("known_users"):

        def authenticate(connect: Any, peer: Any) -> int:
            allowed = connect.user_name is None or known.get(connect.user_name) == (connect.password or b"").decode()
            return 0 if allowed else 0x87  # not authorized

        options = replace(options, mqtt=replace(options.mqtt, authenticate=authenticate))
    return options


def main(spec: Path, folder: Path, work: Path) -> int:
    suite = tomllib.loads(spec.read_text())
    read, leave_out = KINDS[suite["kind"]]
    beside = suite.get("beside", [])
    loopback_up()
    lead_here(suite.get("hosts", []), work)
    key, chain = certificate(work)
    for name in suite.get("certificates", []):  # FOLDER/KIND: the names that RabbitMQ's tools give
        certificate(folder / name, "client_key.pem", "client_certificate.pem")
        certificate(folder / name, "client_key_broken.pem", "other.pem")
        (folder / name / "client_certificate_broken.pem").write_bytes(
            (folder / name / "client_certificate.pem").read_bytes()
        )
        (folder / name / "ca_certificate.pem").write_bytes(chain.read_bytes())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(chain, key)
    options = options_of(suite, tls)
    environment = {
        **os.environ,
        "SSL_CERT_FILE": str(chain),
        "PYTHON": sys.executable,
        "WORK": str(work),
        **suite.get("environment", {}),
    }
    environment["PATH"] = f"{HERE / 'programs'}:{environment['PATH']}"
    environment.pop("PYTHONPATH", None)
    report = work / "report.xml"
    places = {
        "report": report,
        "reports": report.with_suffix(""),
        "python": folder / ".venv/bin/python",
        "host_python": sys.executable,
        "here": HERE,
    }
    command = [word.format(**places) for word in suite["command"]]
    if "files" in suite:  # of Go: run only the tests of these files
        found = [
            name
            for file in suite["files"]
            for name in re.findall(r"^func (Test\w+)", (folder / file).read_text(), re.M)
        ]
        command.append(f"-test.run=^({'|'.join(found)})$")
    if suite.get("slow") and environment.get("SUITES") != "all":
        command += leave_out(list(suite["slow"]))
    with running(options) as broker, open(work / "output.txt", "w") as output:
        if "management" in beside:
            management(broker)
            environment["RABBITMQ_RABBITMQCTL_PATH"] = str(HERE / "programs" / "rabbitmqctl")
        if "docker" in beside:
            environment["DOCKER_HOST"] = f"tcp://127.0.0.1:{docker(options.ports)}"
        if "nsqd" in beside:
            nsqd_http(broker, 4151)
        if "nsqd program" in beside:
            serve_nsqd()
        if "qpid" in beside:
            QpidTopic(broker)
        place = folder / suite.get("folder", ".")
        subprocess.run(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            timeout=suite.get("limit", 120),
        )  # fmt: skip
    text = (work / "output.txt").read_text(errors="replace")
    (work / "result.json").write_text(json.dumps(read(text, report)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*(Path(argument).resolve() for argument in sys.argv[1:])))
