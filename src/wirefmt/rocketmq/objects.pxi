# RemotingCommand, the only kind of frame in RocketMQ, as a Python object; its encoder for both header forms, and the Decoder.
#
# A command exists only as its octets. A constructor writes them and reads them back with rocketmq_parse.
import base64
import hashlib
import hmac

from cpython.long cimport PyLong_Check
from libc.stdlib cimport qsort

from wirefmt.rocketmq.spec import (
    CURRENT_VERSION as ROCKETMQ_CURRENT_VERSION,
    LANGUAGES as ROCKETMQ_LANGUAGE_ROWS,
    REQUEST_CODES as ROCKETMQ_CODE_ROWS, RESPONSE_CODES as ROCKETMQ_RESPONSE_ROWS,
)


cdef extern from *:
    dict presized_dict "__Pyx_PyDict_NewPresized"(Py_ssize_t size)      # Cython's own function, for every Python version
    object PyDictProxy_New(object mapping)                              # types.MappingProxyType


cdef dict ROCKETMQ_LANGUAGE_NUMBERS = {name: number for number, name in ROCKETMQ_LANGUAGE_ROWS.items()}
cdef dict ROCKETMQ_REQUEST_NAMES = {row.code: row.name for row in ROCKETMQ_CODE_ROWS}
cdef tuple ROCKETMQ_SERIALIZE_NAMES = ("JSON", "ROCKETMQ")
cdef object NO_FIELDS = MappingProxyType({})


# ------------------------------------------------------------------------------------------------ values -> octets

cdef struct RocketmqExtField:      # of extFields
    const uint8_t* name
    PyObject* value             # a str; in a typed header also an int or a bool
    uint32_t name_size
    uint32_t hash               # hash of the name in Java


cdef enum:
    ROCKETMQ_FIELDS_START = 32  # fields without an allocation


cdef struct RocketmqExtFields:     # gather_fields returns the object that owns what they point to
    RocketmqExtField* at
    uint32_t* order             # numbers of fields, in the order they are written
    Py_ssize_t count
    bint present                # False: absent, not an empty map


cdef int space_for_fields(RocketmqExtFields* fields, Py_ssize_t count) except -1:
    """Make space for more than ROCKETMQ_FIELDS_START. Until then `fields` uses the caller's array."""
    cdef RocketmqExtField* at = <RocketmqExtField*>malloc(<size_t>count * (sizeof(RocketmqExtField) + sizeof(uint32_t)))
    if at == NULL:
        raise MemoryError
    fields.at = at
    fields.order = <uint32_t*>(at + count)
    return 0


cdef inline int add_field(RocketmqExtFields* fields, object name, object value) except -1:
    """Add a field of two str."""
    cdef RocketmqExtField* field = &fields.at[fields.count]
    cdef Py_ssize_t size = 0
    field.name = utf8_view(name, &size, "ext_fields")
    field.name_size = <uint32_t>size
    field.hash = java_hash(name)
    field.value = <PyObject*>value
    fields.order[fields.count] = <uint32_t>fields.count
    fields.count += 1
    return 0


cdef object gather_fields(RocketmqExtFields* out, object header, object ext_fields, bint binary):
    """Collect the fields of a command in the order in which they are written. The returned object owns them.

    The JSON header has them in the order of Java's map. The binary header has the fields of a FAST class before the others,
    in the order of the declaration.
    """
    cdef HeaderForm form
    cdef dict fields
    cdef list first
    # the map of the Java code begins with 16 buckets, or with 256 if a hook added a field before the header class
    cdef uint32_t capacity = 16 if ext_fields is None or header is None else 256
    if header is None and ext_fields is None:
        return None
    out.present = True
    if ext_fields is None:
        found = PyDict_GetItemWithError(ROCKETMQ_FORMS, type(header))
        if found != NULL:
            form = <HeaderForm>found
            header_fields(out, form, <CommandCustomHeader>header, binary and form.fast)
            if not (binary and form.fast):
                order_fields(out, capacity)
            return header
    fields = command_fields(header, ext_fields)
    if len(fields) > ROCKETMQ_FIELDS_START:
        space_for_fields(out, len(fields))
    first = list(header.ext_fields()) if binary and header is not None and header.FAST else []
    if first:
        others = [name for name in fields if name not in first]
        for name in [*first, *java_order(others, capacity)]:
            add_field(out, name, fields[name])
        return fields
    for name, value in fields.items():
        add_field(out, name, value)
    order_fields(out, capacity)
    return fields


cdef int header_fields(RocketmqExtFields* out, HeaderForm form, CommandCustomHeader header, bint declared_order) except -1:
    """Collect the fields of a typed header that are not None. Inherited fields come first unless `declared_order` is set."""
    cdef RocketmqExtField* field
    cdef const RocketmqHeaderField* row
    cdef PyObject* items = <PyObject*>header.items
    cdef PyObject* value
    cdef int i, k
    if form.count > ROCKETMQ_FIELDS_START:
        space_for_fields(out, form.count)
    for i in range(form.count):
        k = i if declared_order else form.put[i]
        value = borrowed_item(items, k)
        if <object>value is None:
            continue
        row = &form.fields[k]
        field = &out.at[out.count]
        field.name = row.wire
        field.name_size = row.wire_size
        field.hash = row.hash
        field.value = value
        out.order[out.count] = <uint32_t>out.count
        out.count += 1
    return 0


cdef int order_fields(RocketmqExtFields* fields, uint32_t capacity) except -1:
    """Sort the fields into the iteration order of a Java HashMap that began with `capacity` buckets."""
    cdef uint64_t[ROCKETMQ_FIELDS_START] start
    cdef uint64_t* keys = start
    cdef uint64_t key
    cdef uint32_t hash
    cdef Py_ssize_t i, k
    capacity = java_capacity(fields.count, capacity)
    if fields.count > ROCKETMQ_FIELDS_START:
        keys = <uint64_t*>malloc(<size_t>fields.count * sizeof(uint64_t))
        if keys == NULL:
            raise MemoryError
    for i in range(fields.count):
        hash = fields.at[i].hash
        key = <uint64_t>((hash ^ hash >> 16) & (capacity - 1)) << 32 | <uint64_t>i
        if keys != start:
            keys[i] = key
            continue
        k = i
        while k and keys[k - 1] > key:
            keys[k] = keys[k - 1]
            k -= 1
        keys[k] = key
    if keys != start:
        qsort(keys, <size_t>fields.count, sizeof(uint64_t), compare_keys)
    for i in range(fields.count):
        fields.order[i] = <uint32_t>keys[i]
    if keys != start:
        free(keys)
    return 0


cdef int compare_keys(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0]
    cdef uint64_t y = (<const uint64_t*>b)[0]
    return -1 if x < y else x > y


cdef const uint8_t* field_text(PyObject* value, uint8_t* digits, Py_ssize_t* size) except NULL:
    """The text of a field's value; a number is written into `digits` (DIGITS_ROOM)."""
    cdef const uint8_t* p = ascii_octets(value, size)
    cdef int overflow = 0
    if p != NULL:
        return p
    if <object>value is True or <object>value is False:
        size[0] = 4 if <object>value is True else 5
        return <const uint8_t*>(b"true" if <object>value is True else b"false")
    if PyLong_Check(<object>value):
        size[0] = write_signed(PyLong_AsLongLongAndOverflow(<object>value, &overflow), digits)
        return digits
    return any_utf8_view(<object>value, size, "ext_fields")


cdef int write_json_command(Writer w, object code, object language, object version, object opaque, object flag,
                            object remark, const RocketmqExtFields* fields) except -1:
    """Section 2: members in the order of their names; None members are omitted."""
    cdef uint8_t[DIGITS_CAPACITY] digits
    cdef Py_ssize_t i, size = 0
    cdef const RocketmqExtField* field
    cdef const uint8_t* text
    write_ascii(w, '{"code":')
    write_decimal(w, number32(code, "code"))
    if fields.present:
        write_ascii(w, ',"extFields":{')
        for i in range(fields.count):
            field = &fields.at[fields.order[i]]
            text = field_text(field.value, digits, &size)
            if i:
                w.put_u8(c",")
            write_java_octets(w, field.name, field.name_size)
            w.put_u8(c":")
            write_java_octets(w, text, <size_t>size)
        w.put_u8(c"}")
    write_ascii(w, ',"flag":')
    write_decimal(w, number32(flag, "flag"))
    if language is not None:
        write_ascii(w, ',"language":"')
        write_ascii(w, known_language(language))
        w.put_u8(c'"')
    if opaque is not None:
        write_ascii(w, ',"opaque":')
        write_decimal(w, number32(opaque, "opaque"))
    if remark is not None:
        write_ascii(w, ',"remark":')
        write_java_string(w, remark, "remark")
    write_ascii(w, ',"serializeTypeCurrentRPC":"JSON","version":')
    write_decimal(w, number32(version, "version"))
    return w.put_u8(c"}")


cdef int write_binary_command(Writer w, object code, object language, object version, object opaque, object flag,
                              object remark, const RocketmqExtFields* fields) except -1:
    """Section 3."""
    cdef uint8_t[DIGITS_CAPACITY] digits
    cdef Py_ssize_t i, size = 0
    cdef const RocketmqExtField* field
    cdef const uint8_t* text
    cdef size_t at
    if language is None:
        raise EncodeError("language: the ROCKETMQ header cannot hold None")
    if opaque is None:
        raise EncodeError("opaque: the ROCKETMQ header cannot hold None")
    w.put_u16(<uint16_t><int16_t>signed_number(code, 16, "code of the ROCKETMQ header"))
    w.put_u8(<uint8_t>ROCKETMQ_LANGUAGE_NUMBERS[known_language(language)])
    w.put_u16(<uint16_t><int16_t>signed_number(version, 16, "version of the ROCKETMQ header"))
    w.put_u32(<uint32_t>number32(opaque, "opaque"))
    w.put_u32(<uint32_t>number32(flag, "flag"))
    text = utf8_view("" if remark is None else remark, &size, "remark")
    w.put_u32(<uint32_t>size)
    w.put_octets(text, <size_t>size)
    at = w.out.size
    w.put_u32(0)
    for i in range(fields.count):
        field = &fields.at[fields.order[i]]
        w.put_u16(<uint16_t>whole_number(field.name_size, 0x7FFF, "ext_fields"))
        w.put_octets(field.name, field.name_size)
        text = field_text(field.value, digits, &size)
        w.put_u32(<uint32_t>size)
        w.put_octets(text, <size_t>size)
    store_u32(w.out.at + at, <uint32_t>(w.out.size - at - 4))
    return 0


cdef str known_language(object language):
    if language not in ROCKETMQ_LANGUAGE_NUMBERS:
        raise EncodeError(f"language: {language!r} is not one of {', '.join(ROCKETMQ_LANGUAGE_NUMBERS)}")
    return language


cdef dict command_fields(object header, object ext_fields):
    """extFields of a typed header and of a mapping; None: absent, not an empty map."""
    cdef dict out
    if header is None and ext_fields is None:
        return None
    if header is None and PyDict_CheckExact(ext_fields):
        out = (<dict>ext_fields).copy()
        for name, value in out.items():
            if type(name) is not str or type(value) is not str:
                break
        else:
            return out
    out = {}
    if header is not None:
        # the Java map gets inherited fields first, which matters if two fields share a bucket
        values = header.ext_fields()
        out = {name: values[name] for name in (*header.INHERITED, *values) if name in values}
    if ext_fields is not None:
        for name, value in ext_fields.items():
            if not isinstance(name, str) or not isinstance(value, (str, type(None))):
                raise TypeError(f"ext_fields[{name!r}]: names and values must be str, not {type(value).__name__}")
            if value is not None:
                out[name if type(name) is str else str.__str__(name)] = value
    return out


cdef bytes command_octets(object code, object flag, object opaque, object remark, object ext_fields, object header, object body,
                          object language, object version, object serialize_type):
    """A command as the Java code would write it."""
    cdef Writer w = new_writer()
    cdef RocketmqExtField[ROCKETMQ_FIELDS_START] start
    cdef uint32_t[ROCKETMQ_FIELDS_START] order
    cdef RocketmqExtFields fields
    cdef bint binary = serialize_type == "ROCKETMQ"
    cdef bytes block, octets
    cdef uint8_t* p
    cdef size_t size
    fields.at = start
    fields.order = order
    fields.count = 0
    fields.present = False
    try:
        owner = gather_fields(&fields, header, ext_fields, binary)
        if serialize_type not in ROCKETMQ_SERIALIZE_NAMES:
            raise EncodeError(f"serialize_type must be 'JSON' or 'ROCKETMQ', not {serialize_type!r}")
        if binary:
            write_binary_command(w, code, language, version, opaque, flag, remark, &fields)
        else:
            write_json_command(w, code, language, version, opaque, flag, remark, &fields)
    finally:
        if fields.at != start:
            free(fields.at)
    if w.out.size > 0xFFFFFF:
        raise EncodeError(f"a header of {w.out.size} bytes, the limit is {0xFFFFFF}")
    block = b"" if body is None else take_block(body)
    size = 8 + w.out.size + <size_t>PyBytes_GET_SIZE(block)
    if size > ROCKETMQ_FRAME_MAX:
        raise EncodeError(f"a frame of {size} bytes, the limit is {ROCKETMQ_FRAME_MAX}")
    octets = new_octets(size)
    p = <uint8_t*>PyBytes_AS_STRING(octets)
    store_u32(p, <uint32_t>(size - 4))
    store_u32(p + 4, <uint32_t>w.out.size)
    p[4] = ROCKETMQ_BINARY if binary else ROCKETMQ_JSON
    memcpy(p + 8, w.out.at, w.out.size)
    memcpy(p + 8 + w.out.size, PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block))
    return octets


# ------------------------------------------------------------------------------------------------ the command

@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class RemotingCommand:
    """A frame of the remoting protocol: a request, or the response to one. Also a buffer: its body.

    Immutable; equal by value; keeps the input block it was decoded from.

    `code` is a request code or, if `is_response`, a response code; `opaque` is the number of the request, which its
    response repeats (None: a JSON header without one). `language` is a name of wirefmt.rocketmq.spec.LANGUAGES, or None
    if it is unknown. `ext_fields` is a read-only mapping of str to str, None if it is absent; in the
    ROCKETMQ header an empty key or value is None. `serialize_type` is "JSON" or "ROCKETMQ".

    A constructor takes the fields of the header as `header` (a typed header), as `ext_fields` (a mapping), or both.
    """
    cdef bytes block
    cdef RocketmqFrameView m
    cdef object cached_fields

    __match_args__ = ("code", "flag", "opaque", "remark", "ext_fields", "body", "language", "version", "serialize_type")

    def __init__(self, *, code, flag=0, opaque=0, remark=None, ext_fields=None, header=None, body=b"",
                 language="PYTHON", version=ROCKETMQ_CURRENT_VERSION, serialize_type="JSON"):
        self.adopt(command_octets(code, flag, opaque, remark, ext_fields, header, body, language, version, serialize_type))

    cdef int adopt(self, bytes octets) except -1:
        cdef Fault f
        if rocketmq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), 0, &self.m, NULL,
                          &f) != OK:
            raise encode_error(&ROCKETMQ_TABLES, &f)
        self.block = octets
        return 0

    # ---- the header

    @property
    def code(self):
        return self.m.code

    @property
    def flag(self):
        return self.m.flag

    @property
    def opaque(self):
        return self.m.opaque if self.m.has_opaque else None

    @property
    def version(self):
        return self.m.version

    @property
    def language(self):
        return ROCKETMQ_LANGUAGE_ROWS.get(self.m.language)

    @property
    def serialize_type(self):
        return ROCKETMQ_SERIALIZE_NAMES[self.m.serialize_type]

    @property
    def remark(self):
        return rocketmq_text(&self.m.remark)

    @property
    def ext_fields(self):
        if self.cached_fields is None and self.m.ext.at != NULL:
            self.cached_fields = PyDictProxy_New(rocketmq_fields(&self.m))
        return self.cached_fields

    @property
    def is_response(self):
        return bool(self.m.flag & ROCKETMQ_RESPONSE)

    @property
    def is_oneway(self):
        return bool(self.m.flag & ROCKETMQ_ONEWAY)

    @property
    def name(self):
        """The name of the code, for example SEND_MESSAGE_V2, PULL_NOT_FOUND; None if it is unknown."""
        return (ROCKETMQ_RESPONSE_ROWS if self.is_response else ROCKETMQ_REQUEST_NAMES).get(self.m.code)

    # ---- what the fields and the body mean

    @property
    def header(self):
        """The typed header of a request, as the Java reader reads it: missing and non-numeric values are None.

        None if the code has no header class, and for responses, which do not name their request (see
        decode_header).
        """
        if self.m.flag & ROCKETMQ_RESPONSE or self.m.code not in ROCKETMQ_REQUEST_HEADERS:
            return None
        return ROCKETMQ_REQUEST_HEADERS[self.m.code].from_ext_fields(self.ext_fields, strictness="lax")

    def decode_header(self, header_class=None, *, request=None, strictness=STRICT_MODE):
        """The typed header: of the given class, or of the class for the code; for a response, pass the code of its `request`.

        Raises DecodeError in STRICT if a required field is missing or a value is not of its type; ValueError
        if the class is unknown.
        """
        if header_class is None:
            if self.m.flag & ROCKETMQ_RESPONSE:
                header_class = ROCKETMQ_RESPONSE_HEADERS.get(request)
            else:
                header_class = ROCKETMQ_REQUEST_HEADERS.get(self.m.code)
            if header_class is None:
                raise ValueError(f"no header class is known for code {self.m.code}, request {request}")
        return header_class.from_ext_fields(self.ext_fields, strictness=strictness)

    def decode_body(self, *, request=None, **options):
        """Decode the body: a tuple of MessageExt or Message, an object of a JSON body, or bytes if the type is unknown.

        request: for a response, the code of its request. options: of decode_messages. Raises DecodeError.
        """
        cdef int code = self.m.code
        response = bool(self.m.flag & ROCKETMQ_RESPONSE)
        if response:
            if request is None or code != 0:
                return self.body_bytes()
            code = request
        if code in (ROCKETMQ_STORED_RESPONSES if response else ROCKETMQ_STORED_REQUESTS):
            return decode_messages(self.body_bytes() or b"", **options)
        if code == ROCKETMQ_CODE_SEND_BATCH_MESSAGE and not response:
            return decode_batch_messages(self.body_bytes() or b"")
        body_class = (ROCKETMQ_RESPONSE_BODIES if response else ROCKETMQ_REQUEST_BODIES).get(code)
        return self.body_bytes() if body_class is None else body_class.decode(self.body_bytes() or b"")

    @property
    def body(self):
        """A read-only memoryview; None if the body is empty."""
        return None if self.m.body.at == NULL else PyMemoryView_FromObject(self)

    def body_bytes(self):
        """The body, copied; None if it is empty."""
        if self.m.body.at == NULL:
            return None
        return PyBytes_FromStringAndSize(<const char*>self.m.body.at, self.m.body.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.m.body.at if self.m.body.at != NULL else <const uint8_t*>b"", self.m.body.size, flags)

    # ---- octets and value

    def encode(self):
        """The bytes: those it was decoded from, or those of a constructor, as the Java code would write them."""
        if self.m.size == PyBytes_GET_SIZE(self.block):
            return self.block
        return PyBytes_FromStringAndSize(<const char*>self.m.frame, self.m.size)

    def detach(self):
        """An equal command that holds only its own bytes, not the larger input block."""
        return self if self.m.size == PyBytes_GET_SIZE(self.block) else restore(self.encode())

    cdef tuple values(self):
        return (self.m.code, self.m.flag, self.opaque, self.remark, self.ext_fields, self.body_bytes(), self.m.language,
                self.m.version, self.m.serialize_type)

    def __eq__(self, other):
        cdef RemotingCommand that
        if not isinstance(other, RemotingCommand):
            return NotImplemented
        that = <RemotingCommand>other
        if self.m.size == that.m.size and (self.m.frame == that.m.frame or
                                           memcmp(self.m.frame, that.m.frame, self.m.size) == 0):
            return True
        return self.values() == that.values()

    def __hash__(self):
        fields = self.ext_fields
        return hash((self.m.code, self.m.flag, self.opaque, self.remark,
                     None if fields is None else frozenset(fields.items()), self.body_bytes()))

    def __repr__(self):
        shown = [f"code={self.code}"]
        if self.flag:
            shown.append(f"flag={self.flag}")
        shown.append(f"opaque={self.opaque}")
        if self.remark is not None:
            shown.append(f"remark={self.remark!r}")
        if self.ext_fields is not None:
            shown.append(f"ext_fields={dict(self.ext_fields)!r}")
        if rocketmq_secret_body(&self.m):
            shown.append(f"body={SECRET_SHOWN_OCTETS!r}")
        elif self.m.body.at != NULL:
            shown.append(f"body={shown_octets(self.body)}")
        shown.append(f"language={self.language!r}, version={self.version}, serialize_type={self.serialize_type!r}")
        return f"rocketmq.RemotingCommand({', '.join(shown)})"

    def __reduce__(self):
        return restore, (self.encode(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


#: Codes whose body is stored messages (7.1): the body of the response, and of the request.
cdef frozenset ROCKETMQ_STORED_RESPONSES = frozenset((11, 12, 33, 361, 200050, 200052))
cdef frozenset ROCKETMQ_STORED_REQUESTS = frozenset((39, 309))


cdef dict rocketmq_fields(const RocketmqFrameView* m):
    """extFields; if a key comes twice the last value counts."""
    cdef const uint8_t* at = m.ext.at
    cdef RocketmqText key, value
    cdef dict out = presized_dict(min(m.ext_count, <uint32_t>ROCKETMQ_FIELDS_KEPT))
    while True:
        at = rocketmq_next_field(m, at, &key, &value)
        if at == NULL:
            return out
        if rocketmq_hides(m.code, &key, &value):
            out[rocketmq_text(&key)] = hidden(rocketmq_text(&value))
        elif m.ascii and key.form == ROCKETMQ_OCTETS and value.form == ROCKETMQ_OCTETS:
            out[shared_text(key.at, key.size)] = rocketmq_ascii(&value)
        else:
            out[rocketmq_text(&key)] = rocketmq_text(&value)


cdef inline bint rocketmq_hides(int code, const RocketmqText* key, const RocketmqText* value) except -1:
    """Is a field secret?"""
    if key.form != ROCKETMQ_OCTETS or value.form != ROCKETMQ_OCTETS:
        return rocketmq_hides_written(code, key, value)
    return is_secret_name(key.at, key.size) or rocketmq_secret_field(code, key.at, key.size, value.at, value.size)


cdef bint rocketmq_hides_written(int code, const RocketmqText* key, const RocketmqText* value) except -1:
    """Is the name or value null, with escapes, or not a JSON string?"""
    name, text = rocketmq_text(key), rocketmq_text(value)
    if name is None or text is None:
        return False
    return is_secret_text(name) or rocketmq_hides_octets(code, name.encode("utf-8", "replace"), text.encode("utf-8", "replace"))


cdef bint rocketmq_hides_octets(int code, bytes name, bytes text) except -1:
    return rocketmq_secret_field(code, <const uint8_t*>PyBytes_AS_STRING(name), <size_t>PyBytes_GET_SIZE(name),
                                 <const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))


cdef inline str rocketmq_ascii(const RocketmqText* t):
    """Is the text worth sharing? Topics, groups and flags repeat; long numbers are times and offsets, which do not."""
    if t.size > 8 and c"0" <= t.at[0] <= c"9":
        return ascii_text(t.at, t.size)
    return shared_text(t.at, t.size)


cdef inline RemotingCommand make_command(bytes block, const RocketmqFrameView* m):
    cdef RemotingCommand command = RemotingCommand.__new__(RemotingCommand)
    command.block = block
    command.m = m[0]
    return command


# ------------------------------------------------------------------------------------------------ ACL (section 11)

def signed_bytes(RemotingCommand command not None, /):
    """The data that an ACL signature covers: the values of extFields except Signature, in the order of keys, and the body."""
    fields = command.ext_fields or NO_FIELDS
    names = sorted([name for name in fields if name is not None and name != "Signature"],
                   key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    text = "".join([fields[name] for name in names if fields[name] is not None])
    return text.encode("utf-8", "replace") + (command.body_bytes() or b"")


def sign(RemotingCommand command not None, /, *, access_key, secret_key, security_token=None):
    """The command with AccessKey, SecurityToken (if given) and Signature: HMAC-SHA1 of `signed_bytes`."""
    fields = dict(command.ext_fields or {})
    fields.pop("Signature", None)
    fields["AccessKey"] = access_key
    if security_token is not None:
        fields["SecurityToken"] = security_token
    order = [name for name in (command.header.ext_fields() if command.header is not None and command.header.FAST else ())]
    unsigned = with_fields(command, fields, order)
    fields["Signature"] = signature(unsigned, secret_key)
    return with_fields(command, fields, order)


def signature(RemotingCommand command not None, secret_key, /):
    """The valid signature of a command for a secret key."""
    digest = hmac.new(secret_key.encode("utf-8"), signed_bytes(command), hashlib.sha1).digest()
    return base64.b64encode(digest).decode("ascii")


cdef RemotingCommand with_fields(RemotingCommand command, dict fields, list order):
    header = command.header if order else None
    return RemotingCommand(code=command.code, flag=command.flag, opaque=command.opaque, remark=command.remark, header=header,
                           ext_fields=fields, body=command.body_bytes(), language=command.language,
                           version=command.version, serialize_type=command.serialize_type)


# ------------------------------------------------------------------------------------------------ decode, encode

cdef int rocketmq_limits(object limits, uint32_t* frame_size, uint32_t* elements) except -1:
    """None: the protocol's own limit on frames."""
    frame_size[0] = ROCKETMQ_FRAME_MAX if limits is None or limits.frame_size == 0 else limits.frame_size
    elements[0] = DEFAULT_ROCKETMQ_ELEMENTS if limits is None else limits.elements
    return 0


def decode(data, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one frame, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once. strictness: frames have no violation that LAX
    accepts. limits: wirefmt.framing.Limits; None: frames of 16 MiB at most, as in real peers.

    Returns a RemotingCommand. Raises DecodeError; Truncated if bytes are missing.
    """
    cdef bytes block = take_block(data)
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(block)
    cdef size_t n = <size_t>PyBytes_GET_SIZE(block), size = 0
    cdef RocketmqFrameView m
    cdef Fault f
    cdef uint32_t frame_size = 0, elements = 0
    cdef int status
    is_strict(strictness)
    rocketmq_limits(limits, &frame_size, &elements)
    status = rocketmq_frame_size(p, n, frame_size, &size, &f)
    if status <= NEED_DATA:
        status = rocketmq_parse(p, n, elements, &m, NULL, &f)
    if status != OK:
        raise_fault(&ROCKETMQ_TABLES, &f, 0)
    return make_command(block, &m)


def frame_size(data, *, limits=None):
    """Size in bytes of the frame that `data` begins with, including its length word, or NEED_DATA for fewer than four bytes.

    Raises DecodeError if no frame can begin this way: LimitExceeded over 16 MiB, or over `limits`.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef uint32_t frame_size = 0, elements = 0
    cdef int status
    rocketmq_limits(limits, &frame_size, &elements)
    status = rocketmq_frame_size(head, n, frame_size, &size, &f)
    return size_found(&ROCKETMQ_TABLES, status, size, &f)


def encode(RemotingCommand command not None, /):
    """The bytes of a command, as `command.encode()`."""
    return command.encode()


def restore(bytes octets not None):
    """Unpickle a command."""
    cdef RocketmqFrameView m
    cdef Fault f
    if rocketmq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), 0, &m, NULL, &f) != OK:
        raise_fault(&ROCKETMQ_TABLES, &f, 0)
    return make_command(octets, &m)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to commands. strictness, limits: as in decode()."""
    cdef uint32_t max_frame_size, max_elements

    def __init__(self, *, strictness=STRICT_MODE, limits=None):
        is_strict(strictness)
        self.tables = &ROCKETMQ_TABLES
        rocketmq_limits(limits, &self.max_frame_size, &self.max_elements)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return rocketmq_frame_size(p, n, self.max_frame_size, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef RocketmqFrameView m
        if rocketmq_parse(p, n, self.max_elements, &m, NULL, f) != OK:
            return None
        return make_command(block, &m)
