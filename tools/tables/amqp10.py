"""amqp10/table.pxi and _classes.pyi from amqp10/spec.py."""

from __future__ import annotations

from types import ModuleType

from tables.text import c_array, c_row, enum, faults, quoted

CATEGORIES = ("", "fixed", "variable", "compound", "array")


def label(name: str) -> str:
    return name.replace("-", "_").upper()


def class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def amqp10_table(spec: ModuleType) -> list[str]:
    types = {name: i for i, name in enumerate(spec.TYPES)}
    paths = {path: i for i, path in enumerate(spec.FIELDS)}
    masks = {name: 1 << i for i, name in enumerate(spec.ARCHETYPES)} | {"": 0}
    constructors = {c.code: c for c in spec.CONSTRUCTORS}

    def row_of(path: str) -> int:
        return paths.get(path, paths.get(path + "[]", 0))

    lines = enum("Amqp10Type", ((f"AMQP10_{label(t)}", i) for t, i in types.items()))
    lines += enum("Amqp10Code", ((f"AMQP10_CODE_{label(c.name)}", c.code) for c in spec.CONSTRUCTORS))
    lines += enum(
        "Amqp10Category", ((f"AMQP10_CATEGORY_{label(name)}", i) for i, name in enumerate(CATEGORIES) if name)
    )
    lines += enum("Amqp10Provides", ((f"AMQP10_PROVIDES_{label(n)}", mask) for n, mask in masks.items() if n))
    lines += enum("Amqp10Shape", ((f"AMQP10_{label(c.name)}", i) for i, c in enumerate(spec.COMPOSITES, 1)))
    lines += enum(
        "Amqp10FieldOf",
        ((f"AMQP10_{label(c.name)}_{label(f.name)}", i) for c in spec.COMPOSITES for i, f in enumerate(c.fields)),
    )
    lines += enum("Amqp10SectionCode", ((f"AMQP10_SECTION_{label(s.name)}", s.code) for s in spec.SECTIONS))
    lines += faults("amqp10", spec)
    lines += ["", "", "cdef extern from *:", '    """']
    lines += [
        "    typedef struct { unsigned char type, category, width, zero; } Amqp10ConstructorRow;",
        "    typedef struct { unsigned short field, provides, mandatory, first; unsigned char code, count; }"
        " Amqp10ShapeRow;",
        "    typedef struct { unsigned short field, requires; unsigned char type, multiple; } Amqp10FieldRow;",
        "    typedef struct { unsigned short field; unsigned char type, shape; } Amqp10SectionRow;",
    ]
    lines += c_array(
        "Amqp10ConstructorRow amqp10_constructors[256]",
        (
            c_row(types[c.type], CATEGORIES.index(c.category), c.width, int(c.category == "fixed" and c.width == 0))
            if (c := constructors.get(i))
            else "{0, 0, 0, 0}"
            for i in range(256)
        ),
    )
    shapes, fields, first = [], [], 0
    for c in spec.COMPOSITES:
        mandatory = sum(1 << i for i, f in enumerate(c.fields) if f.mandatory)
        provides = sum(masks[name] for name in c.provides)
        shapes.append(c_row(row_of(spec.attribute(c.name)), provides, mandatory, first, c.code, len(c.fields)))
        for f in c.fields:
            path = f"{spec.attribute(c.name)}.{spec.attribute(f.name)}"
            fields.append(c_row(row_of(path), masks[f.requires], types[f.type], int(f.multiple)))
        first += len(c.fields)
    lines += c_array("Amqp10ShapeRow amqp10_shapes[]", ["{0, 0, 0, 0, 0, 0}", *shapes])
    lines += c_array("Amqp10FieldRow amqp10_fields[]", fields)
    codes = {c.code: i for i, c in enumerate(spec.COMPOSITES, 1)}
    lines += c_array("unsigned char amqp10_shape_of_code[128]", (str(codes.get(i, 0)) for i in range(128)))
    symbols = ['""', *(quoted(c.symbol) for c in spec.COMPOSITES)]
    lines += c_array("char *const amqp10_shape_symbol[]", symbols)
    lines += c_array("unsigned char amqp10_shape_symbol_size[]", ["0", *(str(len(c.symbol)) for c in spec.COMPOSITES)])
    lines += c_array("char *const amqp10_shape_name[]", ['""', *(quoted(c.name) for c in spec.COMPOSITES)])
    lines += c_array("char *const amqp10_shape_class[]", ['""', *(quoted(class_name(c.name)) for c in spec.COMPOSITES)])
    lines += c_array(
        "char *const amqp10_field_name[]",
        (quoted(spec.attribute(f.name)) for c in spec.COMPOSITES for f in c.fields),
    )
    lines += c_array("char *const amqp10_type_name[]", map(quoted, spec.TYPES))
    lines += c_array(
        "char *const amqp10_constructor_name[256]",
        (quoted(c.name if (c := constructors.get(i)) else "") for i in range(256)),
    )
    lines += c_array(
        f"Amqp10SectionRow amqp10_sections[{len(spec.SECTIONS)}]",
        (c_row(row_of(spec.attribute(s.name)), types[s.type], codes.get(s.code, 0)) for s in spec.SECTIONS),
    )
    lines += c_array("char *const amqp10_section_symbol[]", (quoted(s.symbol) for s in spec.SECTIONS))
    lines += ['    """']
    lines += [
        "    ctypedef struct Amqp10ConstructorRow:",
        "        uint8_t type, category, width      # category 0: no such constructor",
        "        uint8_t zero                       # the value takes no octets",
        "    ctypedef struct Amqp10ShapeRow:",
        "        uint16_t field, provides           # path; Amqp10Provides",
        "        uint16_t mandatory                 # bit n: field n",
        "        uint16_t first                     # its first row of amqp10_fields",
        "        uint8_t code, count",
        "    ctypedef struct Amqp10FieldRow:",
        "        uint16_t field, requires           # path; Amqp10Provides",
        "        uint8_t type, multiple",
        "    ctypedef struct Amqp10SectionRow:",
        "        uint16_t field",
        "        uint8_t type, shape                # shape 0: no composite",
        "    const Amqp10ConstructorRow* amqp10_constructors",
        "    const Amqp10ShapeRow* amqp10_shapes",
        "    const Amqp10FieldRow* amqp10_fields",
        "    const uint8_t* amqp10_shape_of_code",
        "    const CText* amqp10_shape_symbol",
        "    const uint8_t* amqp10_shape_symbol_size",
        "    const CText* amqp10_shape_name",
        "    const CText* amqp10_shape_class",
        "    const CText* amqp10_field_name",
        "    const CText* amqp10_type_name",
        "    const CText* amqp10_constructor_name      # by code; empty: undefined",
        "    const Amqp10SectionRow* amqp10_sections   # by code - AMQP10_SECTION_HEADER",
        "    const CText* amqp10_section_symbol",
        "",
        "",
        "cdef enum:",
        f"    AMQP10_SHAPES = {len(spec.COMPOSITES) + 1}",
        f"    AMQP10_FIELD_ROWS = {len(fields)}        # rows of amqp10_fields",
        f"    AMQP10_FIELDS_MAX = {max(len(c.fields) for c in spec.COMPOSITES)}",
        f"    AMQP10_NESTING_MAX = {spec.NESTING_MAX}",
        f"    AMQP10_SECTION_FIRST = {spec.SECTIONS[0].code}",
        f"    AMQP10_SECTION_LAST = {spec.SECTIONS[-1].code}",
    ]
    return lines


# ------------------------------------------------------------------------------------------------ amqp10/_classes.pyi

#: Type of a field -> the type of the attribute, and of the constructor's argument; absent for fields of several types.
PYTHON_TYPES = {
    "boolean": ("bool", "bool"),
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong"), ("int", "int")),
    "timestamp": ("int", "int | datetime"),
    "binary": ("bytes", "Buffer"),
    "string": ("str", "str"),
    "symbol": ("Symbol", "str"),
    "map": ("Map", "_Map"),
}
SYMBOLS = ("Symbol | Array", "_Symbols")

#: A transfer also has a payload.
PAYLOAD = [
    "    @property",
    "    def payload(self) -> memoryview: ...",
    "    def payload_bytes(self) -> bytes: ...",
    "    @property",
    "    def message(self) -> Message: ...",
    "    if sys.version_info >= (3, 12):",
    "        def __buffer__(self, flags: int, /) -> memoryview: ...",
]


def stub_types(field: object) -> tuple[str, str]:
    """The types of the attribute and of the argument. Every field may be absent."""
    if field.requires == "error":
        return "Any", "Error | None"
    if field.multiple and field.type == "symbol":
        own, given = SYMBOLS
    elif field.multiple or field.type not in PYTHON_TYPES:
        return "Any", "Any"
    else:
        own, given = PYTHON_TYPES[field.type]
    return f"{own} | None", f"{given} | None"


def amqp10_stub(spec: ModuleType) -> list[str]:
    """The composite types: performatives, SASL frames, sections, states, sources and targets."""
    lines = ['"""The composite types of AMQP 1.0, as wirefmt.amqp10.spec has them."""', ""]
    lines += ["import sys", "from datetime import datetime", "from typing import Any, Final, final", ""]
    lines += ["from typing_extensions import Buffer", ""]
    names = "Array, Composite, Map, Message, Performative, Symbol, _Map, _Symbols"
    lines += [f"from wirefmt.amqp10._codec import {names}"]
    for c in spec.COMPOSITES:
        is_frame = bool({"frame", "sasl-frame"} & set(c.provides))
        is_transfer = c.name == "transfer"
        fields = [(f.name.replace("-", "_"), *stub_types(f), f.mandatory) for f in c.fields]
        matched = [name for name, *_ in fields] + ["payload"] * is_transfer + ["channel"] * is_frame
        given = [f"{name}: {kind}" + ("" if mandatory else " = None") for name, _, kind, mandatory in fields]
        given += ["channel: int = 0", 'extended_header: Buffer = b""'] * is_frame
        given += ['payload: Buffer | Message = b""'] * is_transfer
        lines += ["", "@final", f"class {class_name(c.name)}({'Performative' if is_frame else 'Composite'}):"]
        words = ", ".join(map(quoted, matched)) + ("," if len(matched) == 1 else "")
        lines += [f"    __match_args__ = ({words})"]
        lines += [f"    {name}: Final[{kind}]" for name, kind, *_ in fields]
        lines += [f"    def __init__(self{', *, ' if given else ''}{', '.join(given)}) -> None: ..."]
        lines += PAYLOAD * is_transfer
    return lines
