"""Records connections of `openssl s_client` with mosquitto and `openssl s_server`, as a pcap file and a key log for each, into a
folder: `python record.py FOLDER`. It needs tcpdump, openssl and mosquitto, and the right to capture on loopback.

The server's key, server.pem, is in the folder, too: all certificates are made here and are good for nothing else.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

CONNECT = bytes.fromhex("100f00044d5154540402003c00036e6577")
SUBSCRIBE = bytes.fromhex("8208000100037a2f2301")
PUBLISH = b'\x32\x15\x00\x03z/1\x00\x02{"value":22.5}'
DISCONNECT = bytes.fromhex("e000")
CONNACK = bytes.fromhex("20020000")

#: Of OpenSSL: without the extended master secret.
PLAIN = "openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nOptions=-ExtendedMasterSecret\n"

VALID = ("20260101000000Z", "20460101000000Z")
EXPIRED = ("20200101000000Z", "20200201000000Z")
COMING = ("20450101000000Z", "20460101000000Z")


class Scene(NamedTuple):
    client: str  # options of s_client
    server: str = ""  # of s_server; "": mosquitto
    certificate: str = "rsa"
    extended: bool = True  # master secret


SCENES = {
    "rsa-aes128gcm": Scene("-tls1_2 -cipher AES128-GCM-SHA256"),
    "rsa-aes256gcm-noems": Scene("-tls1_2 -cipher AES256-GCM-SHA384", extended=False),
    "rsa-aes128cbc": Scene("-tls1_2 -cipher AES128-SHA"),
    "rsa-aes256ccm8": Scene("-tls1_2 -cipher AES256-CCM8"),
    "ecdhe-aes128ccm": Scene("-tls1_2 -cipher ECDHE-ECDSA-AES128-CCM", certificate="ec"),
    "ecdhe-aes256ccm8": Scene("-tls1_2 -cipher ECDHE-ECDSA-AES256-CCM8", certificate="ec"),
    "dhe-aes256ccm": Scene("-tls1_2 -cipher DHE-RSA-AES256-CCM", "-tls1_2 -cipher ALL:@SECLEVEL=0"),
    "old-tls10": Scene("-tls1 -cipher ALL:@SECLEVEL=0 -alpn mqtt", "-tls1 -cipher ALL:@SECLEVEL=0 -alpn mqtt"),
    "old-tls11": Scene("-tls1_1 -cipher ALL:@SECLEVEL=0", "-tls1_1 -cipher ALL:@SECLEVEL=0"),
    "camellia": Scene("-tls1_2 -cipher ECDHE-RSA-CAMELLIA128-SHA256", "-cipher ALL"),
    "alpn-tls12": Scene("-tls1_2 -alpn x,mqtt", "-alpn mqtt"),
    "alpn-tls13": Scene("-tls1_3 -alpn x,mqtt", "-alpn mqtt"),
    "alpn-refused": Scene("-tls1_2 -alpn x,mqtt", "-tls1_2"),
    "expired": Scene("-tls1_2", certificate="expired"),
    "coming": Scene("-tls1_3", certificate="coming"),
}


def certificates(folder: Path) -> None:
    database = folder / "ca"
    database.mkdir()
    (database / "index.txt").touch()
    (database / "serial").write_text("1000")
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=one\n[one]\ndatabase={database}/index.txt\nserial={database}/serial\nnew_certs_dir={database}\n"
        "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\norganizationName=optional\n"
        "[req]\ndistinguished_name=name\n[name]\n"
    )
    keys = {"rsa": ["rsa:2048"], "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]}
    for name, times in (("rsa", VALID), ("ec", VALID), ("expired", EXPIRED), ("coming", COMING)):
        own = ["openssl", "req", "-new", "-nodes", "-newkey", *keys.get(name, keys["rsa"]), "-config", "ca.cnf"]
        own += ["-keyout", f"{name}.pem", "-out", f"{name}.csr", "-subj", "/O=wirefmt, tests/CN=broker.example"]
        run(own, folder)
        sign = ["openssl", "ca", "-batch", "-selfsign", "-notext", "-config", "ca.cnf", "-keyfile", f"{name}.pem"]
        sign += ["-in", f"{name}.csr", "-out", f"{name}.crt", "-startdate", times[0], "-enddate", times[1]]
        run(sign, folder)


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def record(name: str, scene: Scene, folder: Path, port: int) -> None:
    quiet: dict[str, Any] = {
        "cwd": folder,
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    if scene.server:
        command = ["openssl", "s_server", "-quiet", "-accept", str(port), "-cert", f"{scene.certificate}.crt"]
        server = subprocess.Popen([*command, "-key", f"{scene.certificate}.pem", *scene.server.split()], **quiet)
    else:
        (folder / "mosquitto.conf").write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\ncertfile {folder}/{scene.certificate}.crt\n"
            f"keyfile {folder}/{scene.certificate}.pem\nciphers ALL:@SECLEVEL=0\n"
        )
        server = subprocess.Popen(["mosquitto", "-c", "mosquitto.conf"], **quiet)
    out = folder / f"{name}.pcap"
    dump = subprocess.Popen(["tcpdump", "-i", "lo", "-U", "-w", str(out), f"port {port}"], **quiet)
    time.sleep(1)
    command = ["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{port}", "-servername", "broker.example"]
    (folder / "plain.cnf").write_text(PLAIN)
    environment = os.environ if scene.extended else os.environ | {"OPENSSL_CONF": str(folder / "plain.cnf")}
    command += ["-keylogfile", f"{name}.log", *scene.client.split()]
    client = subprocess.Popen(command, env=environment, **quiet)
    assert client.stdin is not None
    assert server.stdin is not None
    for octets in (CONNECT, SUBSCRIBE, PUBLISH, DISCONNECT):
        time.sleep(0.3)
        try:
            client.stdin.write(octets)
            client.stdin.flush()
        except BrokenPipeError:
            print(name, client.communicate()[1].decode())
            break
        if scene.server and octets == CONNECT:
            time.sleep(0.3)
            server.stdin.write(CONNACK)
            server.stdin.flush()
    time.sleep(0.5)
    for process in (client, server, dump):
        process.terminate()
        process.communicate()
        time.sleep(0.3)
    Path(f"{out}.gz").write_bytes(gzip.compress(out.read_bytes(), mtime=0))
    out.unlink()


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    certificates(folder)
    for number, (name, scene) in enumerate(SCENES.items()):
        record(name, scene, folder, 18883 + number)


if __name__ == "__main__":
    main()
