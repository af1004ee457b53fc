# RocketMQ's JSON bodies as Python objects: heartbeats, routes, queues to lock (7.3). There is one class for each row of BODIES in
# wirefmt/rocketmq/spec.py.
from wirefmt.rocketmq.spec import BODIES as ROCKETMQ_BODY_ROWS


cdef object body_error(str name, str field, object value):
    return Malformed(
        f"{rocketmq_check_text[<int>ROCKETMQ_CHECK_BODY_SHAPE].decode('ascii')}: {type(value).__name__}", protocol="rocketmq",
        path=f"body.{field}" if field else "body", spec=f"7.3 {name}",
        reply=rocketmq_checks[<int>ROCKETMQ_CHECK_BODY_SHAPE].reply)


cdef object typed_value(str type_name, object value, str owner, str field):
    """A JSON value as the type in the table: lists become tuples, objects instances. Raises DecodeError."""
    if value is None:
        return None
    first = type_name[0]
    if first == "[":
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise body_error(owner, field, value)
        return tuple([typed_value(type_name[1:len(type_name) - 1], item, owner, field) for item in value])
    if first == "{":
        key_type, item_type = type_name[1:len(type_name) - 1].split(":", 1)
        if not isinstance(value, (dict, MappingProxyType)):
            raise body_error(owner, field, value)
        return MappingProxyType({
            typed_value(key_type, key, owner, field): typed_entry(item_type, key, item, owner, field)
            for key, item in value.items()
        })
    if type_name in ROCKETMQ_BODIES:
        if isinstance(value, RemotingSerializable):
            return value
        if not isinstance(value, dict):
            raise body_error(owner, field, value)
        return (<object>ROCKETMQ_BODIES[type_name]).from_json(value)
    kind = JAVA_TYPES[type_name]
    if kind == JAVA_STRING:
        return value if isinstance(value, str) else java_text(value)
    if kind == JAVA_BOOLEAN and isinstance(value, (bool, int)):
        return bool(value)
    if isinstance(value, (dict, list)):
        raise body_error(owner, field, value)
    try:
        return java_value(kind, value if isinstance(value, str) else str(int(value)))
    except ValueError:
        raise body_error(owner, field, value) from None


cdef object typed_entry(str type_name, object key, object value, str owner, str field):
    """The value of a map's entry."""
    value = typed_value(type_name, value, owner, field)
    return hidden(value) if secret_name(key) else value


cdef object plain_value(object value):
    """The JSON value of a result of typed_value."""
    if isinstance(value, RemotingSerializable):
        return (<RemotingSerializable>value).to_json()
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, MappingProxyType):
        return {key: plain_value(item) for key, item in value.items()}
    return value


cdef class RemotingSerializable:
    """Base of the JSON bodies. Immutable; equal by value. Members are attributes in Python's case; absent ones are None.

    Lists are tuples, maps read-only mappings. `FIELDS` of a class: (member, attribute, type) as in wirefmt.rocketmq.spec.
    """
    cdef tuple items

    FIELDS = ()
    __match_args__ = ()

    def __init__(self, **values):
        items = []
        for _, name, type_name in self.FIELDS:
            items.append(typed_value(type_name, values.pop(name, None), type(self).__name__, name))
        if values:
            raise TypeError(f"{type(self).__name__} has no member {', '.join(map(repr, values))}")
        self.items = tuple(items)

    @classmethod
    def from_json(cls, value):
        """The body of a dict of members. Unknown members are skipped. Raises DecodeError."""
        cdef RemotingSerializable self = <RemotingSerializable>bare_subclass(&ROCKETMQ_BODY_FACTORY, cls)
        if not isinstance(value, dict):
            raise body_error(cls.__name__, "", value)
        self.items = tuple([
            typed_value(type_name, value.get(member), cls.__name__, member) for member, _, type_name in cls.FIELDS
        ])
        return self

    @classmethod
    def decode(cls, data, *, limits=None):
        """Decode a body from JSON bytes. Raises DecodeError."""
        return cls.from_json(decode_json(data, limits=limits))

    def encode(self, *, bint loose=False):
        """The bytes, as the Java code writes them: sorted members without null ones. loose: as rocketmq.encode_json."""
        return encode_json(self.to_json(), loose=loose)

    cpdef dict to_json(self):
        """The members as a dict of plain values, without those that are None."""
        cdef dict out = {}
        for (member, _, _), value in zip(self.FIELDS, self.items):
            if value is not None:
                out[member] = plain_value(value)
        return out

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.items == (<RemotingSerializable>other).items

    def __hash__(self):
        return hash(self.encode())

    def __repr__(self):
        shown = [f"{name}={shown_member(shown_entry(name, value))}" for (_, name, _), value in zip(self.FIELDS, self.items)
                 if value is not None]
        return f"rocketmq.{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self):
        return restore_body, (type(self).__name__, self.to_json())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef Factory ROCKETMQ_BODY_FACTORY = factory_of(RemotingSerializable)


cdef str shown_member(object value):
    return repr(dict(value)) if isinstance(value, MappingProxyType) else repr(value)


def restore_body(str name not None, dict members not None):
    """Unpickle a JSON body."""
    return ROCKETMQ_BODIES[name].from_json(members)


cdef object body_member(object i, str type_name):
    def member(RemotingSerializable self not None):
        return self.items[i]
    return property(member, doc=type_name + ", or None")


cdef object make_body_class(object row):
    """A row of BODIES -> its class."""
    fields = []
    for word in row.fields.split():
        member, type_name = word.split(":", 1)
        fields.append((member, python_name(member), type_name))
    space = {name: body_member(i, type_name) for i, (_, name, type_name) in enumerate(fields)}
    space |= {
        "__slots__": (),
        "__module__": "wirefmt.rocketmq",
        "__match_args__": tuple([name for _, name, _ in fields]),
        "__doc__": f"{row.name}: {', '.join((*row.requests, *row.responses)) or 'part of other bodies'}.",
        "FIELDS": tuple(fields),
    }
    return type(row.name, (RemotingSerializable,), space)


cdef dict ROCKETMQ_BODIES = {row.name: make_body_class(row) for row in ROCKETMQ_BODY_ROWS}
cdef dict ROCKETMQ_REQUEST_BODIES = {
    code.code: ROCKETMQ_BODIES[row.name]
    for row in ROCKETMQ_BODY_ROWS for code in ROCKETMQ_REQUEST_ROWS if code.name in row.requests
}
cdef dict ROCKETMQ_RESPONSE_BODIES = {
    code.code: ROCKETMQ_BODIES[row.name]
    for row in ROCKETMQ_BODY_ROWS for code in ROCKETMQ_REQUEST_ROWS if code.name in row.responses
}
globals().update(ROCKETMQ_BODIES)


def body_class(code, /, *, bint response=False):
    """The JSON body of a request code, or of its successful response; None if the protocol has none."""
    return (ROCKETMQ_RESPONSE_BODIES if response else ROCKETMQ_REQUEST_BODIES).get(code)
