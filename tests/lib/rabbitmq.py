"""A private RabbitMQ node on loopback, with its own ports, data, cookie and epmd. All are removed after the test session."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lib.ports import HOST, free_port

USER = PASSWORD = "guest"
START = 90.0  # seconds that a node may take to start on a busy machine
END = 20.0  # and seconds to stop
PLUGINS = ("rabbitmq_amqp1_0", "rabbitmq_mqtt", "rabbitmq_web_mqtt")

#: Debian's wrapper in the PATH changes to the user rabbitmq and to the files of the system. The script that it calls does not.
SCRIPTS = os.pathsep.join(
    ("/usr/lib/rabbitmq/bin", os.environ.get("PATH", ""), "/usr/local/sbin", "/opt/rabbitmq/sbin")
)
SERVER = shutil.which("rabbitmq-server", path=SCRIPTS)
CONTROL = shutil.which("rabbitmqctl", path=SCRIPTS)
EPMD = shutil.which("epmd")

#: The root directory of a Debian 13 system with rabbitmq-server, which is RabbitMQ 4 there.
ROOT = os.environ.get("WIREFMT_RABBITMQ4", "")
PATH_THERE = "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Broker:
    """A running node. AMQP 0.9.1 and 1.0 share `port`; MQTT has `mqtt_port`, over WebSocket `web_port` (/ws)."""

    folder: Path
    port: int = 0
    mqtt_port: int = 0
    web_port: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    epmd: subprocess.Popen[bytes] | None = None
    process: subprocess.Popen[bytes] | None = None

    def programs(self) -> tuple[str, str]:
        """The commands of epmd and of the server."""
        assert EPMD is not None
        assert SERVER is not None
        return EPMD, SERVER

    def start(self) -> None:
        """Start epmd and the node. Tries again if another program has taken a port."""
        epmd, server = self.programs()
        for _ in range(3):
            self.configure()
            # in the foreground, as a child: without an epmd the node starts one, which does not end with it
            self.epmd = self.run(epmd, "-address", HOST, "-port", self.environment["ERL_EPMD_PORT"])
            self.process = self.run(server)
            if self.answers():
                return
            self.stop()
        log = "\n".join(p.read_text(errors="replace")[-2000:] for p in self.folder.glob("*.log"))
        raise RuntimeError(f"rabbitmq-server does not start:\n{log}")

    def configure(self) -> None:
        self.port, self.mqtt_port, self.web_port, epmd_port, node_port = (free_port() for _ in range(5))
        names = {
            "RABBITMQ_CONFIG_FILE": "rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "rabbitmq-env.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": "advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "enabled_plugins",
            "RABBITMQ_MNESIA_BASE": "data",
            "RABBITMQ_LOG_BASE": ".",
            "RABBITMQ_LOGS": "node.log",
            "RABBITMQ_PID_FILE": "pid",
            "RABBITMQ_FEATURE_FLAGS_FILE": "feature_flags",
            "RABBITMQ_GENERATED_CONFIG_DIR": "config",
            "RABBITMQ_SCHEMA_DIR": "schema",
            "RABBITMQ_PLUGINS_EXPAND_DIR": "expanded",
            "HOME": ".",  # has the cookie
        }
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        idle = "+sbwt none +sbwtdcpu none +sbwtdio none"  # schedulers without work leave the processor to other tests
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))},
            **{name: str(self.folder / value) for name, value in names.items()},
            "RABBITMQ_NODENAME": f"wirefmt{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{loopback} {idle}",
            "RABBITMQ_CTL_ERL_ARGS": f"{loopback} {idle}",
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(epmd_port),
            "detached": "1",  # the script becomes the node, instead of waiting for it
        }
        (self.folder / "rabbitmq-env.conf").write_text("")
        (self.folder / "advanced.config").write_text("[].\n")
        (self.folder / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            f"mqtt.listeners.tcp.1 = {HOST}:{self.mqtt_port}\n"
            f"web_mqtt.tcp.ip = {HOST}\n"
            f"web_mqtt.tcp.port = {self.web_port}\n"
            "num_acceptors.tcp = 2\n"
            "disk_free_limit.absolute = 1MB\n"
            # the last one sends a challenge: connection.secure, sasl-challenge
            "auth_mechanisms.1 = PLAIN\n"
            "auth_mechanisms.2 = AMQPLAIN\n"
            "auth_mechanisms.3 = RABBIT-CR-DEMO\n"
        )

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        name = Path(command[0]).name
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def answers(self) -> bool:
        """Wait until the ports accept connections. Returns False if the node ends or takes too long."""
        end = time.monotonic() + START
        waiting = [self.port, self.mqtt_port, self.web_port]
        while waiting and self.process is not None and self.process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection((HOST, waiting[-1]), timeout=1).close()
                waiting.pop()
            except OSError:
                time.sleep(0.1)
        return not waiting

    def control(self, *command: str) -> str:
        """Run rabbitmqctl. Returns its output."""
        assert CONTROL is not None
        return self._control(CONTROL, "--quiet", *command, env=self.environment, cwd=self.folder)

    def _control(self, *command: str, env: dict[str, str], cwd: Path | None = None) -> str:
        done = subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START,
            check=True,
        )
        return done.stdout

    def restart(self, *, kill: bool = False) -> None:
        """End the node, at once with `kill`, and start it again with its data and at its ports."""
        assert self.process is not None
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(END)
        self.process = self.run(self.programs()[1])
        if not self.answers():
            raise RuntimeError("rabbitmq-server does not come back")

    def frozen(self, seconds: float) -> None:
        """Stop the node's process, and let it go on after some time: a machine that stands still."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for process in (self.process, self.epmd):
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.process = self.epmd = None


class Rooted(Broker):
    """A node whose programs and folder are in another root directory."""

    def programs(self) -> tuple[str, str]:
        return "epmd", "rabbitmq-server"

    def there(self) -> dict[str, str]:
        """The environment, as it is in the root."""
        there = {key: value.replace(ROOT, "") for key, value in self.environment.items()}
        return {**there, "PATH": PATH_THERE, "LANG": "C.UTF-8"}

    def control(self, *command: str) -> str:
        return self._control("chroot", ROOT, "rabbitmqctl", "--quiet", *command, env=self.there())

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}.log").open("wb") as log:
            return subprocess.Popen(
                ("chroot", ROOT, *command),
                env=self.there(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@contextlib.contextmanager
def rabbitmq4() -> Iterator[Broker]:
    """A node of RabbitMQ 4, stopped at the end. Skips the test if RabbitMQ 4 is not installed."""
    if not ROOT or os.geteuid() != 0:
        pytest.skip(
            "needs root, and RabbitMQ 4 in a root of Debian 13 (debootstrap --variant=minbase "
            "--include=rabbitmq-server trixie DIR; WIREFMT_RABBITMQ4=DIR)"
        )
    folder = Path(tempfile.mkdtemp(prefix="wirefmt-", dir=f"{ROOT}/tmp"))
    node = Rooted(folder)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        shutil.rmtree(folder, ignore_errors=True)
