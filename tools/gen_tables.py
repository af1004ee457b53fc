"""Make the core's C tables, and the page about the message table, from the tables in src/wirefmt/spec.

    python tools/gen_tables.py            write what is stale
    python tools/gen_tables.py --check    write nothing; exit 1 and name what is stale

One generated file is one entry of GENERATED. The files are committed, so that a build needs no generator.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "src" / "wirefmt" / "spec"
CORE = ROOT / "src" / "wirefmt" / "_core"


class Generated(NamedTuple):
    output: Path
    source: Path  # a module of wirefmt.spec, loaded on its own: the generator needs no built core
    text: Callable[[ModuleType], Iterable[str]]  # the lines of the output, without the header


# ------------------------------------------------------------------------------------------------ helpers for C text


def quoted(text: str) -> str:
    return json.dumps(text)


def c_array(declaration: str, rows: Iterable[str]) -> list[str]:
    return [f"    static const {declaration} = {{", *(f"        {row}," for row in rows), "    };"]


def c_row(*values: object) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def enum(name: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    return ["", "", f"cdef enum {name}:", *(f"    {label} = {value}" for label, value in rows)]


# ------------------------------------------------------------------------------------------------ MQTT


def field_label(path: str) -> str:
    """`subscriptions[].options` -> MQTT_FIELD_SUBSCRIPTIONS_OPTIONS; a trailing `[]` becomes _ITEM."""
    if not path:
        return "MQTT_FIELD_PACKET"
    if path.endswith("[]"):
        path = path[:-2] + "_item"
    return "MQTT_FIELD_" + path.replace("[]", "").replace(".", "_").upper()


def mqtt_codes(spec: ModuleType, version: int) -> list[list[int]]:
    """Packet type -> the codes it may carry, as eight words of 32 bits."""
    numbers = {p.name: p.number for p in spec.PACKET_TYPES}
    words = [[0] * 8 for _ in range(16)]
    if version < 5:
        pairs = [("CONNACK", code) for code in spec.CONNACK_RETURN_CODES]
        pairs += [("SUBACK", code) for code in spec.SUBACK_RETURN_CODES[version]]
    else:
        pairs = [(packet, row.code) for row in spec.REASON_CODES for packet in row.packets]
    for packet, code in pairs:
        words[numbers[packet]][code >> 5] |= 1 << (code & 31)
    return words


def mqtt_table(spec: ModuleType) -> list[str]:
    statuses = {"TRUNCATED": 2, "MALFORMED": 3, "LIMIT": 4, "UNSUPPORTED": 5}  # status.pxd
    types = {name: i for i, name in enumerate(("", "byte", "two", "four", "varint", "string", "binary", "pair"))}
    rules = {name: i for i, name in enumerate(("", "boolean", "non_zero", "topic"))}
    senders = {"client": 1, "server": 2, "both": 3}
    numbers = {"WILL": 0} | {p.name: p.number for p in spec.PACKET_TYPES}
    fields = {path: i for i, path in enumerate(spec.FIELDS)}
    checks = {c.name: i + 1 for i, c in enumerate(spec.CHECKS)}
    properties = {p.identifier: p for p in spec.PROPERTIES}
    packets = {p.number: p for p in spec.PACKET_TYPES}
    top = max(properties) + 1

    def mask(names: Iterable[str]) -> int:
        return sum(1 << numbers[name] for name in names)

    def field_of(p: object, area: str) -> int:
        path = f"{area}.{p.name}"  # type: ignore[attr-defined]
        return fields.get(path, fields.get(path + "[]", 0))

    lines = enum("MqttType", ((f"MQTT_{p.name}", p.number) for p in spec.PACKET_TYPES))
    lines += enum("MqttPropertyId", ((f"MQTT_PROPERTY_{p.name.upper()}", p.identifier) for p in spec.PROPERTIES))
    lines += enum("MqttWireType", ((f"MQTT_{name.upper()}", i) for name, i in types.items() if name))
    lines += enum("MqttRule", ((f"MQTT_RULE_{name.upper()}", i) for name, i in rules.items() if name))
    lines += enum("MqttCheck", ((f"MQTT_CHECK_{name}", i) for name, i in checks.items()))
    lines += enum("MqttField", ((field_label(path), i) for path, i in fields.items()))
    lines += ["", "", "cdef extern from *:", '    """']
    lines += [
        "    typedef struct { short reply, return_code; unsigned char status, lax, versions; } MqttCheckRow;",
        "    typedef struct { unsigned short packets, repeats, field, will_field; unsigned char type, rule; }"
        " MqttPropertyRow;",
        "    typedef struct { unsigned short flags_check; unsigned char flags, senders, first_version; }"
        " MqttPacketRow;",
    ]
    lines += c_array(
        "MqttCheckRow mqtt_checks[]",
        [
            "{0, 0, 0, 0, 0}",
            *(
                c_row(
                    -1 if c.reply is None else c.reply,
                    -1 if c.return_code is None else c.return_code,
                    statuses[c.status],
                    int(c.lax),
                    bool(c.v3) * 8 + bool(c.v4) * 16 + bool(c.v5) * 32,
                )
                for c in spec.CHECKS
            ),
        ],
    )
    lines += c_array("char *const mqtt_check_text[]", ['""', *(quoted(c.text) for c in spec.CHECKS)])
    lines += c_array("char *const mqtt_check_name[]", ['""', *(quoted(c.name) for c in spec.CHECKS)])
    lines += c_array(
        "char *const mqtt_check_spec[][3]",
        ['{"", "", ""}', *("{" + ", ".join(map(quoted, (c.v3, c.v4, c.v5))) + "}" for c in spec.CHECKS)],
    )
    lines += c_array("char *const mqtt_field_path[]", map(quoted, spec.FIELDS))
    lines += c_array(
        "unsigned char mqtt_field_property[]",
        (
            str(next((p.identifier for p in spec.PROPERTIES if p.name == path.split(".")[-1].removesuffix("[]")), 0))
            if "properties." in path
            else "0"
            for path in spec.FIELDS
        ),
    )
    lines += c_array(
        f"MqttPropertyRow mqtt_properties[{top}]",
        (
            c_row(
                mask(p.sections),
                mask(p.repeats_in),
                field_of(p, "properties"),
                field_of(p, "will.properties"),
                types[p.type],
                rules[p.rule],
            )
            if (p := properties.get(i))
            else "{0, 0, 0, 0, 0, 0}"
            for i in range(top)
        ),
    )
    lines += c_array(
        f"char *const mqtt_property_name[{top}]",
        (quoted(p.name) if (p := properties.get(i)) else '""' for i in range(top)),
    )
    section_of = {number: spec.PROPERTY_SECTIONS.get(name, "") for name, number in numbers.items()}
    lines += c_array(
        f"char *const mqtt_property_section[{top}][16]",
        (
            "{"
            + ", ".join(
                quoted(
                    next((s for packet, s in p.sections.items() if numbers[packet] == n), section_of[n])
                    if (p := properties.get(i))
                    else section_of[n]
                )
                for n in range(16)
            )
            + "}"
            for i in range(top)
        ),
    )
    lines += c_array(
        "MqttPacketRow mqtt_packets[16]",
        (
            c_row(checks[p.flags_check], 0 if p.flags is None else p.flags, senders[p.sender], p.first_version)
            if (p := packets.get(i))
            else "{0, 0, 0, 0}"
            for i in range(16)
        ),
    )
    lines += c_array(
        "char *const mqtt_packet_name[16]", (quoted(p.name) if (p := packets.get(i)) else '""' for i in range(16))
    )
    lines += c_array(
        "unsigned int mqtt_codes[3][16][8]",
        (
            "{" + ", ".join("{" + ", ".join(f"0x{w:08x}" for w in row) + "}" for row in mqtt_codes(spec, v)) + "}"
            for v in spec.VERSIONS
        ),
    )
    lines += ['    """']
    lines += [
        "    ctypedef struct MqttCheckRow:",
        "        int16_t reply",
        "        int16_t return_code",
        "        uint8_t status, lax, versions      # versions: bit 3 is MQTT 3.1, 4 is 3.1.1, 5 is 5.0",
        "    ctypedef struct MqttPropertyRow:",
        "        uint16_t packets, repeats          # bit n: packet type n; bit 0: will properties",
        "        uint16_t field, will_field",
        "        uint8_t type, rule",
        "    ctypedef struct MqttPacketRow:",
        "        uint16_t flags_check",
        "        uint8_t flags, senders             # senders: 1 client, 2 server, 3 both",
        "        uint8_t first_version",
        "    const MqttCheckRow* mqtt_checks",
        "    const CText* mqtt_check_text",
        "    const CText* mqtt_check_name",
        "    const char* mqtt_check_spec[][3]",
        "    const CText* mqtt_field_path",
        "    const uint8_t* mqtt_field_property",
        "    const MqttPropertyRow* mqtt_properties",
        "    const CText* mqtt_property_name",
        "    const char* mqtt_property_section[][16]",
        "    const MqttPacketRow* mqtt_packets",
        "    const CText* mqtt_packet_name",
        "    const uint32_t mqtt_codes[3][16][8]    # version - 3, packet type, code / 32",
        "",
        "",
        "cdef enum:",
        f"    MQTT_PROPERTY_TOP = {top}      # no Property Identifier is as high",
        f"    MQTT_CHECK_COUNT = {len(checks) + 1}",
    ]
    return lines


# ------------------------------------------------------------------------------------------------ the message table


def table_columns(spec: ModuleType) -> list[str]:
    """Numbers of the columns: T_ the message table's, M_ those of its MQTT struct, B_ those of MQTT's decode_batch."""
    lines = []
    for name, prefix, columns in (
        ("TableColumn", "T", spec.COLUMNS),
        ("MqttTableField", "M", spec.MQTT_FIELDS),
        ("MqttBatchColumn", "B", spec.MQTT_BATCH),
    ):
        lines += enum(name, ((f"{prefix}_{c.name.upper()}", i) for i, c in enumerate(columns)))
    return lines


def table_page(spec: ModuleType) -> list[str]:
    """docs/message-table.md: the columns for people."""
    intro = """
# The message table

One row is one protocol message, or one thing that went wrong while reading (`kind` is null then, `status` and `error`
say what). It is the same table in Arrow, on the command line and in Spark: `wirefmt.spec.table.COLUMNS` is the only
place that names the columns. All columns may be null. Times are UTC.

| column | type | meaning |
|---|---|---|"""
    mqtt = """
## mqtt

The struct column `mqtt` has what MQTT says beyond the common columns. On the command line and in Spark a field is
`mqtt.retain`. A property is null where the packet has none.

| field | type | meaning |
|---|---|---|"""

    def rows(columns: Iterable[tuple[str, str, str]]) -> list[str]:
        # a struct's fields have a table of their own
        return [
            f"| `{name}` | {kind if kind[:7] != 'struct<' else 'struct'} | {said} |" for name, kind, said in columns
        ]

    return [*intro.splitlines(), *rows(spec.COLUMNS), *mqtt.splitlines(), *rows(spec.MQTT_FIELDS)]


# ------------------------------------------------------------------------------------------------ the list

GENERATED: tuple[Generated, ...] = (
    Generated(CORE / "mqtt_table.pxi", SPEC / "mqtt.py", mqtt_table),
    Generated(CORE / "table_columns.pxi", SPEC / "table.py", table_columns),
    Generated(ROOT / "docs" / "message-table.md", SPEC / "table.py", table_page),
)


def load(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"wirefmt_spec_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def wanted(item: Generated) -> str:
    source = item.source.relative_to(ROOT).as_posix()
    digest = hashlib.sha256(item.source.read_bytes()).hexdigest()
    header = f"GENERATED by tools/gen_tables.py from {source}, sha256 {digest}"
    header = f"<!-- {header} -->\n" if item.output.suffix == ".md" else f"# {header}\n"
    return header + "\n".join(item.text(load(item.source))) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    options = parser.parse_args()
    stale = 0
    for item in GENERATED:
        text = wanted(item)
        if item.output.exists() and item.output.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(("stale: " if options.check else "written: ") + item.output.relative_to(ROOT).as_posix())
        if not options.check:
            item.output.write_text(text, encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
