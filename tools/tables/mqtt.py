"""mqtt/table.pxi from mqtt/spec.py."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from tables.text import STATUSES, c_array, c_row, enum, field_label, quoted


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
    lines += enum("MqttField", ((field_label("MQTT", path, "PACKET"), i) for path, i in fields.items()))
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
                    STATUSES[c.status],
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
        f"    MQTT_FAILURE = {spec.FAILURE}",
        f"    MQTT_CHECK_COUNT = {len(checks) + 1}",
    ]
    return lines
