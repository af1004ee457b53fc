"""Floats as text in columns and conversions: the fewest digits, correctly rounded, in no locale.

The expected text comes from Python, whose repr and % know no locale, and from NumPy for binary32.
"""

from __future__ import annotations

import json
import locale
import math
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lib.paths import ROOT
from wirefmt import amqp091, amqp10
from wirefmt.convert import convert

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


def doubles() -> list[float]:
    """Bits at random, what is near to powers of two and ten, whole numbers, few digits, subnormal numbers, the ends."""
    chance = random.Random(1)
    found = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
    found += [struct.unpack(">d", chance.randbytes(8))[0] for _ in range(12_000)]
    found += [struct.unpack(">d", struct.pack(">Q", chance.randrange(1 << 52)))[0] for _ in range(300)]
    for base in [2.0**n for n in range(-1074, 1024)] + [10.0**n for n in range(-323, 309)]:
        found += [base, math.nextafter(base, 0), -math.nextafter(base, math.inf)]
    found += [float(chance.randrange(10**n)) for n in range(1, 25) for _ in range(40)]
    found += [chance.randrange(10**6) / 10**n for n in range(12) for _ in range(40)]
    found += [9007199254740993.0, 2.0**53, 1e15, 1e16, 123456789012345680.0, 5e-5, 1e-4, 9.5367431640625e-07, 2e23]
    return found


def floats() -> list[float]:
    chance = random.Random(2)
    bits = [chance.randrange(1 << 32) for _ in range(12_000)] + [chance.randrange(1 << 23) for _ in range(200)]
    bits += [(e << 23) + off & 0xFFFFFFFF for e in range(255) for off in (-1, 0, 1)]
    found = [float(struct.unpack(">f", struct.pack(">I", b))[0]) for b in bits]
    return found + [float(np.float32(chance.randrange(10**n) / 100)) for n in range(1, 10) for _ in range(20)]


def shown(value: float, shortest: str) -> str:
    """The text of columns: the shortest digits, laid out as C's %g does with 15 digits, or with as many as there are."""
    if not math.isfinite(value):
        return json.dumps("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    number = Decimal(shortest).normalize()
    digits = "".join(map(str, number.as_tuple().digits))
    exponent = number.adjusted()
    if -4 <= exponent < max(15, len(digits)):
        return f"{number:f}"
    return f"{'-' * (value < 0)}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{exponent:+03d}"


def double_text(value: float) -> str:
    return shown(value, repr(value))


def float_text(value: float) -> str:
    return shown(value, np.format_float_scientific(np.float32(value)))


def transfer(code: int, octets: bytes) -> bytes:
    payload = b"\0\x53\x77" + bytes((code,)) + octets
    return amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=payload).encode()


def bodies(values: list[float], code: int, form: str) -> list[str]:
    """Of AMQP 1.0: the text of amqp-value sections."""
    batch = amqp10.decode_batch(b"".join(transfer(code, struct.pack(form, v)) for v in values))
    return [body.decode() for body in batch["payload"]]


def headers(values: list[float], letter: bytes, form: str) -> list[str]:
    """Of AMQP 0.9.1: the text of a value in a table within the table of headers, and of one in it."""
    found = []
    method = amqp091.BasicPublish(channel=1).encode()
    for begin in range(0, len(values), 1000):
        entries = b"".join(b"\1k" + letter + struct.pack(form, v) for v in values[begin : begin + 1000])
        content = b"\0\x3c\0\0" + bytes(8) + b"\x20\0" + struct.pack(">I", len(entries)) + entries
        frame = b"\2\0\1" + struct.pack(">I", len(content)) + content + b"\xce"
        (row,) = pa.record_batch(amqp091.decode_batch(method + frame)).to_pylist()
        assert row["error"] is None
        found += [value for _, value in row["headers"]]
    return found


WAYS: list[Any] = [
    pytest.param(doubles, double_text, lambda v: bodies(v, 0x82, ">d"), id="amqp10 double"),
    pytest.param(floats, float_text, lambda v: bodies(v, 0x72, ">f"), id="amqp10 float"),
    pytest.param(doubles, double_text, lambda v: headers(v, b"d", ">d"), id="amqp091 double"),
    pytest.param(floats, float_text, lambda v: headers(v, b"f", ">f"), id="amqp091 float"),
]


@pytest.mark.parametrize(("values", "wanted", "text"), WAYS)
def test_columns(
    values: Callable[[], list[float]], wanted: Callable[[float], str], text: Callable[[list[float]], list[str]]
) -> None:
    given = values()
    found = text(given)
    assert found == [wanted(v) for v in given]
    for value, said in zip(given, found, strict=True):
        if math.isfinite(value):
            assert math.copysign(1, float(said)) == math.copysign(1, value)
            back = float(said) if wanted is double_text else float(np.float32(float(said)))
            assert back == value
            # encode_batch reads a float within JSON as a binary64: the text must not tell which of the two it was
            assert wanted is double_text or said == double_text(float(said))


def test_powers_of_ten() -> None:
    """Each of the table is rounded up, with 128 bits."""
    text = (ROOT / "src" / "wirefmt" / "_core" / "powers.pxd").read_text()
    first = int(re.findall(r"POWER_FIRST = (-?\d+)", text)[0])
    found = re.findall(r"\{0x(\w{16}), 0x(\w{16})\}", text)
    assert (first, len(found)) == (-292, 617)
    for n, (high, low) in enumerate(found, first):
        value, power = int(high + low, 16), Fraction(10) ** n
        assert value >> 127 == 1
        unit = Fraction(2) ** (math.floor(math.log2(10) * n) - 127)
        assert (value - 1) * unit < power <= value * unit, n


def converted(values: list[float]) -> Iterator[str]:
    for begin in range(0, len(values), 100):
        properties = {f"{i}": v for i, v in enumerate(values[begin : begin + 100])}
        message = amqp10.Message(application_properties=properties, body=b"")
        packet = convert(message, to="mqtt5", routing_key="a").message
        yield from (value for _, (_, value) in packet.properties)


def test_conversions() -> None:
    """RabbitMQ writes floats with 20 decimals: float_to_binary(F) of Erlang, which is C's %.20e."""
    values = [v for v in doubles()[::4] if math.isfinite(v)]
    found = list(converted(values))
    assert found == [f"{v:.20e}" for v in values]


def test_no_room_asks_the_locale() -> None:
    """printf, strtod and their kin read and write floats as LC_NUMERIC says."""
    for path in (ROOT / "src" / "wirefmt" / "_core").glob("*.p[xy][ixd]*"):
        text = path.read_text()
        assert not re.search(r"\b(strto(d|f|ld)|atof|sscanf)\b(?!\W+decimal)", re.sub(r"#.*", "", text)), path.name
        for form in re.findall(r"snprintf\([^\"]*\"((?:\\.|[^\"\\])*)\"", text):
            assert not re.search(r"%[-+ #0-9.*]*[aAeEfFgG]", form), (path.name, form)


def comma_locale(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Set a locale whose decimal point is a comma: one that is installed, or one that is made."""
    names = ("de_DE.UTF-8", "fr_FR.UTF-8", "pt_BR.UTF-8", "ru_RU.UTF-8", "de_DE", "fr_FR", "German")
    if shutil.which("localedef"):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")], capture_output=True)
        monkeypatch.setenv("LOCPATH", str(folder))
    for name in names:
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
        except locale.Error:
            continue
        return True
    return False


def test_a_locale_with_a_decimal_comma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = locale.setlocale(locale.LC_NUMERIC)
    if not comma_locale(tmp_path, monkeypatch):
        pytest.skip("needs a locale with a decimal comma (apt install locales)")
    try:
        assert locale.localeconv()["decimal_point"] == ","
        assert bodies([21.5, 0.1], 0x82, ">d") == ["21.5", "0.1"]
        assert headers([21.5], b"f", ">f") == ["21.5"]
        assert list(converted([1.5])) == ["1.50000000000000000000e+00"]
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
