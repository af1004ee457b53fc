"""What tshark and openssl say of the handshakes in the captures of this folder and the one above it, a line for each connection
whose hellos they see: `python facts.py > facts.jsonl`."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIELDS = (
    "tcp.stream", "ip.src", "tcp.srcport", "tls.handshake.type", "tls.handshake.extensions_server_name",
    "tls.handshake.ciphersuite", "tls.handshake.version", "tls.handshake.extensions.supported_version",
    "tls.handshake.extensions_alpn_str", "tls.handshake.certificate", "tls.handshake.random",
)  # fmt: skip
VERSIONS = {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
RETRY = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"


def said(command: list[str], given: bytes = b"") -> str:
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout.decode()


def suites() -> dict[int, str]:
    latest = ":".join(f"TLS_{n}" for n in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256",
                                           "AES_128_CCM_SHA256", "AES_128_CCM_8_SHA256"))  # fmt: skip
    asked = ["openssl", "ciphers", "-V", "-stdname", "-ciphersuites", latest]
    listed = said([*asked, "ALL:eNULL:COMPLEMENTOFALL@SECLEVEL=0"])
    return {int(a + b, 16): name for a, b, name in re.findall(r"0x(..),0x(..) - (\S+)", listed)}


def certificate(octets: bytes) -> dict[str, Any]:
    asked = ["openssl", "x509", "-inform", "DER", "-noout", "-subject", "-nameopt", "RFC2253", "-startdate", "-enddate"]
    lines = dict(line.split("=", 1) for line in said(asked, octets).splitlines())
    times = [datetime.strptime(lines[n], "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC) for n in ("notBefore", "notAfter")]
    return {"subject": lines["subject"], "not_before": times[0].isoformat(), "not_after": times[1].isoformat()}


def facts(path: Path, keys: Path | None) -> list[dict[str, Any]]:
    asked = [
        "tshark",
        "-r",
        str(path),
        "-Y",
        "tls.handshake",
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-E",
        "occurrence=a",
    ]
    for port in range(18883, 18900):
        asked += ["-d", f"tcp.port=={port},tls"]
    if keys is not None:
        asked += ["-o", f"tls.keylog_file:{keys}"]
    for field in FIELDS:
        asked += ["-e", field]
    found: dict[str, dict[str, Any]] = {}
    for line in said(asked).splitlines():
        stream, ip, source, kinds, name, suite, version, chosen, alpn, certificates, random = line.split("|")
        own = found.setdefault(stream, {"file": f"{path.parent.name}/{path.name}", "keys": keys is not None})
        kinds_ = kinds.split(",")
        if "1" in kinds_ and "client" not in own:
            own |= {"client": f"{ip}:{source}", "server_name": name or None, "offered": alpn or None}
        elif "2" in kinds_ and "version" not in own and RETRY not in random:
            number = int((chosen or version).split(",")[0], 16)
            own |= {"version": VERSIONS[number], "cipher": SUITES[int(suite, 16)], "chosen": alpn or None}
        elif "8" in kinds_ and alpn:
            own["chosen"] = alpn
        if "11" in kinds_ and certificates and "subject" not in own and f"{ip}:{source}" != own.get("client"):
            own |= certificate(bytes.fromhex(certificates.split(",")[0].replace(":", "")))
    return [own for own in found.values() if "version" in own and "client" in own]


SUITES = suites()
for folder in (HERE.parent, HERE):
    for path in sorted(folder.glob("*.pcap*.gz")):
        name = path.name.split(".")[0]
        keys = HERE.parent / "keys" / f"{name}.log" if folder != HERE else HERE / f"{name}.log"
        for given in (keys, None) if keys.exists() else (None,):
            for row in facts(path, given):
                print(json.dumps(row))
