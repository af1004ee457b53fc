"""The MQTT packets that tshark decrypts in the captures of this folder, with the key log and with the server's RSA key:
`python messages.py > messages.json`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("frame.number", "mqtt.msgtype", "mqtt.topic", "mqtt.msg")


def said(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, cwd=HERE, text=True).stdout.splitlines()


def messages(path: Path, *option: str) -> list[list[str]]:
    port = said("tshark", "-r", str(path), "-c", "1", "-T", "fields", "-e", "tcp.dstport")[0]
    asked = [
        "tshark",
        "-r",
        str(path),
        "-d",
        f"tcp.port=={port},tls",
        "-d",
        f"tls.port=={port},mqtt",
        *option,
        "-Y",
        "mqtt",
    ]
    fields = [word for field in FIELDS for word in ("-e", field)]
    return [line.split("|") for line in said(*asked, "-T", "fields", "-E", "separator=|", *fields)]


told = {}
for path in sorted(HERE.glob("*.pcap.gz")):
    name = path.name.split(".")[0]
    told[name] = {
        "keylog": messages(path, "-o", f"tls.keylog_file:{HERE / name}.log"),
        "keys": messages(path, "-o", 'uat:rsa_keys:"rsa.pem",""'),
    }
print(json.dumps(told, indent=1))
