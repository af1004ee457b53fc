"""Lines of Cython and C, for all generators."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import ModuleType

#: status.pxd
STATUSES = {"TRUNCATED": 2, "MALFORMED": 3, "LIMIT": 4, "UNSUPPORTED": 5}


def quoted(text: str) -> str:
    return json.dumps(text)


def c_array(declaration: str, rows: Iterable[str]) -> list[str]:
    # not every build uses every table
    return [
        f"    static const __attribute__((unused)) {declaration} = {{",
        *(f"        {row}," for row in rows),
        "    };",
    ]


def c_row(*values: object) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def enum(name: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    return ["", "", f"cdef enum {name}".rstrip() + ":", *(f"    {label} = {value}" for label, value in rows)]


def codes(prefix: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    """An enum of the codes of a specification, by their names there."""
    return enum("", ((f"{prefix}_{name.replace('-', '_').upper()}", code) for name, code in rows))


def field_label(prefix: str, path: str, frame: str = "FRAME") -> str:
    """`subscriptions[].options` -> MQTT_FIELD_SUBSCRIPTIONS_OPTIONS; a trailing `[]` becomes _ITEM; "" the frame itself."""
    if not path:
        return f"{prefix}_FIELD_{frame}"
    if path.endswith("[]"):
        path = path[:-2] + "_item"
    return f"{prefix}_FIELD_" + path.replace("[]", "").replace(".", "_").replace("-", "_").upper()


def faults(prefix: str, spec: ModuleType) -> list[str]:
    """Tables of a protocol whose rules are the same in all versions, for faults.pxi.

    `spec.CHECKS` has rows with name, status, lax, text, spec and reply (an int, one of `spec.REPLIES` if it is a str,
    or None); `spec.FIELDS` has paths, the first of them "". Returns, for prefix `nsq`: the enums NsqCheck
    (NSQ_CHECK_...) and NsqField (NSQ_FIELD_...); besides
    `nsq_checks[]` (reply, status, lax), `nsq_check_text[]`, `nsq_check_name[]`, `nsq_check_spec[]`,
    `nsq_field_path[]`, `nsq_replies[]` and NSQ_CHECK_COUNT. Row 0 is unused.
    """
    upper, title = prefix.upper(), prefix.capitalize()
    replies = list(getattr(spec, "REPLIES", ()))

    def reply(value: object) -> int:
        return -1 if value is None else replies.index(value) if isinstance(value, str) else int(value)

    lines = enum(f"{title}Check", ((f"{upper}_CHECK_{c.name}", i) for i, c in enumerate(spec.CHECKS, 1)))
    lines += enum(f"{title}Field", ((field_label(upper, path), i) for i, path in enumerate(spec.FIELDS)))
    lines += ["", "", "cdef extern from *:", '    """']
    lines += [f"    typedef struct {{ short reply; unsigned char status, lax; }} {title}CheckRow;"]
    rows = (c_row(reply(c.reply), STATUSES[c.status], int(c.lax)) for c in spec.CHECKS)
    lines += c_array(f"{title}CheckRow {prefix}_checks[]", ["{-1, 0, 0}", *rows])
    for name in ("text", "name", "spec"):
        lines += c_array(
            f"char *const {prefix}_check_{name}[]", ['""', *(quoted(getattr(c, name)) for c in spec.CHECKS)]
        )
    lines += c_array(f"char *const {prefix}_field_path[]", map(quoted, spec.FIELDS))
    lines += c_array(f"char *const {prefix}_replies[]", map(quoted, replies or [""]))
    lines += [
        '    """',
        f"    ctypedef struct {title}CheckRow:",
        "        int16_t reply                      # -1: none",
        "        uint8_t status, lax",
        f"    const {title}CheckRow* {prefix}_checks",
        f"    const CText* {prefix}_check_text",
        f"    const CText* {prefix}_check_name",
        f"    const CText* {prefix}_check_spec",
        f"    const CText* {prefix}_field_path",
        f"    const CText* {prefix}_replies",
        "",
        "",
        "cdef enum:",
        f"    {upper}_CHECK_COUNT = {len(spec.CHECKS) + 1}",
    ]
    return lines
