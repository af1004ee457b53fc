"""Records mosquitto in troubles of the rules of findings, as a pcap file for each, into a folder: `python record.py FOLDER`. It
needs tcpdump, mosquitto and paho-mqtt, and the right to capture on loopback."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho

PORT = 18830
CONFIG = f"""listener {PORT} 127.0.0.1
allow_anonymous true
max_queued_messages 3
max_inflight_messages 1
max_topic_alias 5
maximum_qos 1
retain_available false
"""
QOS1 = 1


class Small(paho.Client):  # type: ignore[misc]
    """A client that takes small segments only."""

    def _create_socket_connection(self) -> socket.socket:
        s = socket.socket()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        s.connect(("127.0.0.1", PORT))
        return s


def client(name: str, kind: type[paho.Client] = paho.Client, **options: Any) -> Any:
    made = kind(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5, **options)
    made.connect("127.0.0.1", PORT)
    made.loop_start()
    while not made.is_connected():
        time.sleep(0.01)
    return made


def close(*clients: Any) -> None:
    for one in clients:
        one.disconnect()
        one.loop_stop()


def small_segments(server: int) -> None:
    one = client("narrow-path", Small)
    for i in range(3):
        one.publish("mss/a", f"{i}" * 800, QOS1).wait_for_publish()
    close(one)


def overflow(server: int) -> None:
    """The queue of a slow consumer takes three messages: of a burst of eight, four are dropped without a word."""
    taker, sender = client("slow-taker"), client("burster")
    wait = [0.0]
    taker.on_message = lambda *_: time.sleep(wait[0])
    taker.subscribe("burst/a", QOS1)
    time.sleep(0.2)
    for i in range(50):
        sender.publish("burst/a", f"single {i}", QOS1).wait_for_publish()
        time.sleep(0.01)
    wait[0] = 0.3
    burst = [sender.publish("burst/a", f"burst {i}", QOS1) for i in range(8)]
    for one in burst:
        one.wait_for_publish()
    time.sleep(1.6)
    wait[0] = 0.0
    for i in range(5):
        sender.publish("burst/a", f"last {i}", QOS1).wait_for_publish()
        time.sleep(0.02)
    close(taker, sender)


def pause(server: int) -> None:
    """The server stands still for 400 ms while one message is on its way."""
    taker, sender = client("steady-taker"), client("steady")
    taker.subscribe("steady/a", QOS1)
    time.sleep(0.2)
    for i in range(40):
        if i == 25:
            os.kill(server, signal.SIGSTOP)
        message = sender.publish("steady/a", f"value {i}", QOS1)
        if i == 25:
            time.sleep(0.4)
            os.kill(server, signal.SIGCONT)
        message.wait_for_publish()
        time.sleep(0.01)
    close(taker, sender)


def misuse(server: int) -> None:
    """RETAIN, QoS 2 and a Topic Alias above the maximum, which CONNACK has excluded; one connection for each."""
    connect = bytes.fromhex("101400044d5154540502003c00000761") + b"lias-%d"
    for i, publish in enumerate(
        (
            b"\x31\x08\x00\x03m/a\x00\x78\x79",
            b"\x34\x0a\x00\x03m/a\x00\x01\x00xy",
            b"\x30\x0b\x00\x03m/a\x03\x23\x00\x09xy",
        )
    ):
        with socket.create_connection(("127.0.0.1", PORT)) as s:
            s.sendall(connect % i)
            s.recv(100)
            s.sendall(publish)
            time.sleep(0.1)


STORIES: dict[str, Callable[[int], None]] = {
    "mosquitto-small-mss": small_segments,
    "mosquitto-overflow": overflow,
    "mosquitto-pause": pause,
    "mosquitto-misuse": misuse,
}


def main(folder: Path) -> None:
    config = folder / "mosquitto.conf"
    for name, story in STORIES.items():
        config.write_text(CONFIG)
        server = subprocess.Popen(["mosquitto", "-c", str(config)], stderr=subprocess.DEVNULL)
        path = folder / f"{name}.pcap"
        tcpdump = subprocess.Popen(
            ["tcpdump", "--immediate-mode", "-i", "lo", "-s", "0", "-U", "-w", str(path), f"tcp port {PORT}"],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        try:
            story(server.pid)
            time.sleep(0.5)
        finally:
            for process in (tcpdump, server):
                process.terminate()
                process.wait()
        path.with_suffix(".pcap.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()
    config.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
