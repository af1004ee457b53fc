# RocketMQ's typed headers: the meaning of extFields for a code (section 6). There is one class for each row of HEADERS in
# wirefmt/rocketmq/spec.py, with the fields that it declares and inherits.
from wirefmt.rocketmq.spec import (
    HEADERS as ROCKETMQ_HEADER_ROWS, REQUEST_CODES as ROCKETMQ_REQUEST_ROWS, RPC as ROCKETMQ_RPC_FIELDS,
    SEND_MESSAGE_V2_LETTERS as ROCKETMQ_LETTERS, TOPIC as ROCKETMQ_TOPIC_FIELDS,
)

import re
from sys import intern

from cpython.long cimport PyLong_FromLong


cdef enum:
    JAVA_INT = 0
    JAVA_LONG = 1
    JAVA_BOOLEAN = 2
    JAVA_STRING = 3


cdef dict JAVA_TYPES = {"int": JAVA_INT, "long": JAVA_LONG, "boolean": JAVA_BOOLEAN, "string": JAVA_STRING}
cdef tuple JAVA_TYPE_NAMES = ("int", "long", "boolean", "string")
cdef object WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+").fullmatch
cdef object CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


cdef str python_name(str name):
    """producerGroup -> producer_group"""
    return CAPITALS.sub("_", name).lower()


cdef bint fits(object number, int bits) except -1:
    """Is it a signed number of this many bits?"""
    top = 1 << PyLong_FromLong(bits - 1)
    return -top <= number < top


cdef object java_value(int type, object text):
    """The value of a field's text. Raises ValueError if the text is not a value."""
    if type == JAVA_STRING:
        return text
    if type == JAVA_BOOLEAN:
        return text.lower() == "true"
    if not WHOLE_NUMBER(text) or len(text) > 64:
        raise ValueError(text)
    number = int(text)
    if not fits(number, 32 if type == JAVA_INT else 64):
        raise ValueError(text)
    return number


cdef object checked_value(int type, str name, object value):
    """Check a value that a caller gives to a field."""
    cdef int overflow = 0
    cdef int64_t plain
    if type == JAVA_STRING:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {value.__class__.__name__}")
        return value
    if type == JAVA_BOOLEAN:
        return bool(value)
    if PyLong_CheckExact(value):
        plain = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and (type == JAVA_LONG or -0x80000000 <= plain <= 0x7FFFFFFF):
            return value
    if not PyIndex_Check(value):
        raise TypeError(f"{name} must be an int, not {value.__class__.__name__}")
    number = PyNumber_Index(value)
    if not fits(number, 32 if type == JAVA_INT else 64):
        raise EncodeError(f"{name}: {number} has more than {32 if type == JAVA_INT else 64} bits")
    return number


@cython.freelist(64)
cdef class CommandCustomHeader:
    """Base of the typed headers. Immutable; equal by value. An optional field that is absent is None.

    `FIELDS` of a class: (wire name, attribute, type, required) for each field, in the order of declaration;
    types are "int" (32 bits), "long" (64 bits), "boolean" and "string". `INHERITED`: fields of a base class, by wire
    name. `FAST`: True if the binary header has the fields in this order, before all others.
    """
    cdef tuple items

    FIELDS = ()
    INHERITED = ()
    PLACES = MappingProxyType({})
    FAST = False
    __match_args__ = ()

    def __init__(self, **values):
        items = []
        for _, name, type_name, required in self.FIELDS:
            value = values.pop(name, None)
            if value is not None:
                value = checked_value(JAVA_TYPES[type_name], name, value)
            elif required:
                raise EncodeError(f"{type(self).__name__} needs {name}")
            items.append(value)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(map(repr, values))}")
        self.items = tuple(items)

    @classmethod
    def from_ext_fields(cls, fields, *, strictness=STRICT_MODE):
        """The header of a mapping of texts (None: empty).

        Raises DecodeError in STRICT if a required field is missing or a value is not of its type; in LAX, as in the
        Java reader, such a field is None. Unknown fields are skipped.
        """
        cdef CommandCustomHeader self = <CommandCustomHeader>bare_subclass(&ROCKETMQ_HEADER_FACTORY, cls)
        cdef bint strict = is_strict(strictness)
        items = []
        for wire, _, type_name, required in cls.FIELDS:
            text = None if fields is None else fields.get(wire)
            value = None
            if text is not None:
                try:
                    value = java_value(JAVA_TYPES[type_name], text)
                except ValueError:
                    if strict:
                        raise header_error(ROCKETMQ_CHECK_FIELD_VALUE, wire) from None
            elif required and strict:
                raise header_error(ROCKETMQ_CHECK_FIELD_MISSING, wire)
            items.append(value)
        self.items = tuple(items)
        return self

    def ext_fields(self):
        """The fields as texts, in the order of the class, without None."""
        cdef dict out = {}
        for (wire, _, _, _), value in zip(self.FIELDS, self.items):
            if value is not None:
                out[wire] = ("true" if value else "false") if isinstance(value, bool) else str(value)
        return out

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.items == (<CommandCustomHeader>other).items

    def __hash__(self):
        return hash((type(self), self.items))

    def __repr__(self):
        shown = [f"{name}={shown_entry(name, value)!r}" for (_, name, _, _), value in zip(self.FIELDS, self.items)
                 if value is not None]
        return f"rocketmq.{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self):
        return restore_header, (type(self).__name__, self.items)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef Factory ROCKETMQ_HEADER_FACTORY = factory_of(CommandCustomHeader)


cdef struct RocketmqHeaderField:
    const uint8_t* wire         # the name in extFields, ASCII
    uint32_t wire_size
    uint32_t hash               # hash of that name in Java
    uint8_t type, required


cdef enum:
    ROCKETMQ_FIELDS_MAX = 64    # fields of one header


@cython.final
@cython.no_gc
cdef class HeaderForm:
    """The fields of a header class as C, for its constructor and for commands with such a header."""
    cdef object cls
    cdef list held              # owns the memory of `attributes` and `fields`
    cdef PyObject* attributes[ROCKETMQ_FIELDS_MAX]             # interned, like the names of keywords in a call
    cdef RocketmqHeaderField[ROCKETMQ_FIELDS_MAX] fields       # in the order of the declaration
    cdef uint8_t[ROCKETMQ_FIELDS_MAX] put                      # numbers of fields: the map gets inherited fields first
    cdef KeywordOrder order
    cdef int count
    cdef bint fast


cdef dict ROCKETMQ_FORMS = {}   # for the classes made here; classes derived from them have none


cdef int add_header_form(object cls) except -1:
    cdef HeaderForm form = HeaderForm.__new__(HeaderForm)
    cdef RocketmqHeaderField* field
    cdef bytes wire
    if len(cls.FIELDS) > ROCKETMQ_FIELDS_MAX:
        raise SystemError("ROCKETMQ_FIELDS_MAX is too small")
    form.cls = cls
    form.held = []
    form.fast = cls.FAST
    form.count = <int>len(cls.FIELDS)
    for i, (wire_name, attribute, type_name, required) in enumerate(cls.FIELDS):
        field = &form.fields[<int>i]
        wire = wire_name.encode("ascii")
        attribute = intern(attribute)
        form.held += [wire, attribute]
        form.attributes[<int>i] = <PyObject*>attribute
        field.wire = <const uint8_t*>PyBytes_AS_STRING(wire)
        field.wire_size = <uint32_t>len(wire)
        field.hash = java_hash(wire_name)
        field.type = <uint8_t>JAVA_TYPES[type_name]
        field.required = required
    names = [row[0] for row in cls.FIELDS]
    for place, wire_name in enumerate(dict.fromkeys((*cls.INHERITED, *names))):
        form.put[<int>place] = <uint8_t>names.index(wire_name)
    ROCKETMQ_FORMS[cls] = form
    set_vectorcall(cls, <void*>rocketmq_construct_header)
    return 0


cdef object rocketmq_construct_header(object cls, PyObject** args, size_t nargsf, PyObject* kwnames):
    """Call a header's class."""
    cdef PyObject* values[ROCKETMQ_FIELDS_MAX]
    cdef HeaderForm form = <HeaderForm>ROCKETMQ_FORMS[cls]
    cdef CommandCustomHeader made
    cdef Factory factory
    cdef tuple items
    cdef int k
    memset(values, 0, sizeof(values))
    if not take_keywords(args, nargsf, kwnames, form.attributes, form.count, &form.order, values):
        return construct_slowly(cls, args, nargsf, kwnames)
    items = PyTuple_New(form.count)
    for k in range(form.count):
        value = None
        if values[k] != NULL and <object>values[k] is not None:
            value = checked_value(form.fields[k].type, <str>form.attributes[k], <object>values[k])
        elif form.fields[k].required:
            return construct_slowly(cls, args, nargsf, kwnames)
        Py_INCREF(value)
        PyTuple_SET_ITEM(items, k, value)
    factory = ROCKETMQ_HEADER_FACTORY
    factory.cls = <PyObject*>cls
    made = <CommandCustomHeader>bare_object(&factory)
    made.items = items
    return made


cdef object header_error(int check, str field):
    error = FAULT_CLASSES[rocketmq_checks[check].status](
        rocketmq_check_text[check].decode("ascii"), protocol="rocketmq", path=f"ext_fields.{field}",
        spec=rocketmq_check_spec[check].decode("ascii"), reply=rocketmq_checks[check].reply)
    return error


def restore_header(str name not None, tuple items not None):
    """Unpickle a header: one value for each field, None for those that are absent."""
    cls = ROCKETMQ_HEADERS[name]
    cdef CommandCustomHeader self = <CommandCustomHeader>bare_subclass(&ROCKETMQ_HEADER_FACTORY, cls)
    if len(items) != len(cls.FIELDS):
        raise ValueError(f"{name} has {len(cls.FIELDS)} fields, not {len(items)}")
    self.items = tuple([
        None if value is None else checked_value(JAVA_TYPES[type_name], attribute, value)
        for (_, attribute, type_name, _), value in zip(cls.FIELDS, items)
    ])
    return self


cdef object header_field(str name, str type_name, bint required):
    def field(CommandCustomHeader self not None):
        return self.items[self.PLACES[name]]
    return property(field, doc=type_name + ("" if required else ", or None"))


cdef tuple declared(str fields):
    """`name:type name:type?` -> (wire name, attribute, type, required) of each."""
    out = []
    for word in fields.split():
        wire, type_name = word.split(":")
        out.append((wire, python_name(wire), type_name.rstrip("?"), not type_name.endswith("?")))
    return tuple(out)


cdef object make_header_class(str name, object base, str fields, str doc, bint fast):
    own = declared(fields)
    every = (*own, *base.FIELDS)
    places = {attribute: i for i, (_, attribute, _, _) in enumerate(every)}
    space = {attribute: header_field(attribute, type_name, required) for _, attribute, type_name, required in own}
    space |= {
        "__slots__": (),
        "__module__": "wirefmt.rocketmq",
        "__match_args__": tuple(places),
        "__doc__": doc,
        "FIELDS": every,
        "INHERITED": tuple([wire for wire, _, _, _ in base.FIELDS]),
        "PLACES": places,
        "FAST": fast,
    }
    cls = type(name, (base,), space)
    add_header_form(cls)
    return cls


cdef dict make_header_classes():
    """name -> class: the base classes of the Java code, and one class for each row of HEADERS."""
    rpc = make_header_class("RpcRequestHeader", CommandCustomHeader, ROCKETMQ_RPC_FIELDS,
                            "Routing fields of requests since 5.x.", False)
    topic = make_header_class("TopicRequestHeader", rpc, ROCKETMQ_TOPIC_FIELDS.removesuffix(ROCKETMQ_RPC_FIELDS),
                              "Routing fields of requests on a topic.", False)
    bases = {"": CommandCustomHeader, ROCKETMQ_RPC_FIELDS: rpc, ROCKETMQ_TOPIC_FIELDS: topic}
    out = {"RpcRequestHeader": rpc, "TopicRequestHeader": topic}
    for row in ROCKETMQ_HEADER_ROWS:
        codes = [c.name for c in ROCKETMQ_REQUEST_ROWS if row.name in (c.header, c.response_header)]
        out[row.name] = make_header_class(row.name, bases[row.inherits], row.fields,
                                          f"{row.name}: of {', '.join(codes) or 'no code of its own'}.", row.fast)
    return out


cdef dict ROCKETMQ_HEADERS = make_header_classes()
cdef dict ROCKETMQ_REQUEST_HEADERS = {row.code: ROCKETMQ_HEADERS[row.header] for row in ROCKETMQ_REQUEST_ROWS if row.header}
cdef dict ROCKETMQ_RESPONSE_HEADERS = {
    row.code: ROCKETMQ_HEADERS[row.response_header] for row in ROCKETMQ_REQUEST_ROWS if row.response_header
}
globals().update(ROCKETMQ_HEADERS)


def header_class(code, /, *, bint response=False):
    """The typed header of a request code, or of its response; None if the protocol has none."""
    return (ROCKETMQ_RESPONSE_HEADERS if response else ROCKETMQ_REQUEST_HEADERS).get(code)


def send_v1(header, /):
    """SendMessageRequestHeaderV2 -> SendMessageRequestHeader: names instead of single letters (section 6)."""
    fields = header.ext_fields()
    named = {ROCKETMQ_LETTERS.get(letter, letter): value for letter, value in fields.items()}
    return ROCKETMQ_HEADERS["SendMessageRequestHeader"].from_ext_fields(named)


def send_v2(header, /):
    """SendMessageRequestHeader -> SendMessageRequestHeaderV2."""
    letters = {name: letter for letter, name in ROCKETMQ_LETTERS.items()}
    fields = {letters.get(name, name): value for name, value in header.ext_fields().items()}
    return ROCKETMQ_HEADERS["SendMessageRequestHeaderV2"].from_ext_fields(fields)
