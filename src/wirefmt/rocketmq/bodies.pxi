# The contents of RocketMQ's bodies as Python objects and back: stored messages (7.1), batches (7.2), properties strings,
# message ids (8), and the texts in which POP describes messages (6).
#
# A stored message exists only as its octets, with the fields in the order of the real reader; a constructor writes and reads
# them.
import socket
import zlib

from wirefmt.rocketmq.spec import ExtraInfo


cdef enum:
    ROCKETMQ_COMPRESSED = 0x1
    ROCKETMQ_BORN_V6 = 0x10
    ROCKETMQ_STORE_V6 = 0x20


# ------------------------------------------------------------------------------------------------ properties

cdef dict rocketmq_properties(const uint8_t* p, size_t n):
    """Parse name -> value; if a name comes twice the last value counts."""
    cdef const uint8_t* end = p + n
    cdef Span name, value
    cdef dict out = {}
    while p != NULL:
        p = rocketmq_next_property(p, end, &name, &value)
        if p != NULL:
            text = rocketmq_utf8(value.at, value.size)
            out[rocketmq_utf8(name.at, name.size)] = hidden(text) if is_secret_name(name.at, name.size) else text
    return out


def decode_properties(text, /):
    """Decode a properties string (str or bytes): name 0x01 value 0x02 and so on (7.1).

    Entries without name, value or separator are skipped, as in the Java reader; there are no errors.
    """
    cdef bytes octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else take_block(text)
    return rocketmq_properties(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))


def encode_properties(properties, /):
    """Encode a mapping as a properties string, in order; values that are None are omitted.

    An empty name or value is written, as the Java code does, and lost on reading. Raises EncodeError for the
    separators 0x01 and 0x02 in a name, 0x02 in a value.
    """
    out = []
    for name, value in properties.items():
        if value is None:
            continue
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"properties[{name!r}]: names and values must be str, not {type(value).__name__}")
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise EncodeError(f"properties: {name!r} contains a separator")
        out.append(f"{name}\x01{value}\x02")
    return "".join(out)


cdef bytes properties_octets(object properties):
    """The octets of a mapping or of a properties string."""
    if properties is None:
        return b""
    if isinstance(properties, (bytes, bytearray, memoryview)):
        return take_block(properties)
    text = properties if isinstance(properties, str) else encode_properties(properties)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise EncodeError("properties: a surrogate has no UTF-8 form") from None


# ------------------------------------------------------------------------------------------------ hosts and ids

cdef str address_text(const uint8_t* p, uint32_t size):
    return socket.inet_ntop(socket.AF_INET6 if size == 16 else socket.AF_INET, p[:size])


cdef bytes address_octets(object address, str field):
    if not isinstance(address, str):
        raise TypeError(f"{field} must be a str, not {type(address).__name__}")
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except OSError:
        raise EncodeError(f"{field}: {address!r} is not an address") from None


cdef object id_error(str reason, str path):
    return Malformed(reason, protocol="rocketmq", path=path, spec="8")


cdef bytes id_octets(object text, str path, tuple sizes):
    """A message id in hexadecimal digits."""
    if not isinstance(text, str):
        raise TypeError(f"{path} must be a str, not {type(text).__name__}")
    try:
        octets = bytes.fromhex(text)
    except ValueError:
        raise id_error("not hexadecimal digits", path) from None
    if len(octets) * 2 != len(text) or len(octets) not in sizes:
        raise id_error(f"{len(text)} digits, not {' or '.join([str(2 * n) for n in sizes])}", path)
    return octets


def decode_message_id(text, /):
    """The offset message id of a broker -> (address, port, physical offset) (section 8). Raises DecodeError."""
    cdef bytes octets = id_octets(text, "offset_msg_id", (16, 28))
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(octets)
    cdef uint32_t n = <uint32_t>PyBytes_GET_SIZE(octets) - 12
    return (address_text(p, n), <int32_t>load_u32(p + n), <int64_t>load_u64(p + n + 4))


def encode_message_id(address, port, offset, /):
    """(address, port, physical offset) -> offset message id: 32 digits, 56 for IPv6."""
    octets = address_octets(address, "address")
    whole_number(port, 0x7FFFFFFF, "port")
    whole_number(offset, 0x7FFFFFFFFFFFFFFF, "offset")
    return (octets + int(port).to_bytes(4, "big") + int(offset).to_bytes(8, "big")).hex().upper()


# ---- what POP says of messages in texts (section 6)

cdef object pop_error(str reason, str path):
    return Malformed(reason, protocol="rocketmq", path=path, spec="6")


cdef object pop_number(int type, str path, str text):
    try:
        return java_value(type, text)
    except ValueError:
        raise pop_error("not a number of the field's type", path) from None


def decode_extra_info(str text not None, /):
    """extraInfo of ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME, and the property POP_CK -> ExtraInfo (section 6).

    Seven words, or eight; words after them are skipped, as in the Java reader. Raises DecodeError.
    """
    words = text.split(" ")
    if len(words) < 7:
        raise pop_error("fewer than seven words", "extra_info")
    numbers = [pop_number(type, f"extra_info.{name}", word) if type != JAVA_STRING else word
               for (name, type), word in zip(ROCKETMQ_EXTRA_INFO, words)]
    return ExtraInfo(*numbers)


cdef tuple ROCKETMQ_EXTRA_INFO = tuple(zip(ExtraInfo._fields, (
    JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_STRING, JAVA_STRING, JAVA_INT, JAVA_LONG)))


def encode_extra_info(info not None, /):
    """ExtraInfo -> its words, without the last one if it is None. Raises EncodeError."""
    words = []
    for (name, type), value in zip(ROCKETMQ_EXTRA_INFO, info):
        if value is None and name == "message_queue_offset":
            break
        word = str(checked_value(type, name, value))
        if " " in word:
            raise EncodeError(f"{name}: must not contain a space")
        words.append(word)
    return " ".join(words)


cdef dict pop_entries(str text, str path, object key_of, object value_of):
    """`retryFlag queue value;...` -> {(retryFlag, queue): value}; a pair that comes twice is an error."""
    cdef dict out = {}
    for i, entry in enumerate(text.split(";") if text else ()):
        words = entry.split(" ")
        if len(words) != 3:
            raise pop_error("not three words", f"{path}[{i}]")
        key = (words[0], key_of(words[1]))
        if key in out:
            raise pop_error("a queue comes twice", f"{path}[{i}]")
        out[key] = value_of(words[2])
    return out


def decode_start_offset_info(str text not None, /):
    """startOffsetInfo of POP's response -> {(retry flag, queue id): offset} (section 6). Raises DecodeError."""
    def queue(str word):
        return pop_number(JAVA_INT, "start_offset_info", word)

    def offset(str word):
        return pop_number(JAVA_LONG, "start_offset_info", word)

    return pop_entries(text, "start_offset_info", queue, offset)


def decode_msg_offset_info(str text not None, /):
    """msgOffsetInfo of POP's response -> {(retry flag, queue id): offsets} (section 6). Raises DecodeError."""
    def queue(str word):
        return pop_number(JAVA_INT, "msg_offset_info", word)

    def offsets(str word):
        return tuple([pop_number(JAVA_LONG, "msg_offset_info", offset) for offset in word.split(",")])

    return pop_entries(text, "msg_offset_info", queue, offsets)


def decode_order_count_info(str text not None, /):
    """orderCountInfo of POP's response -> {(retry flag, queue): count} (section 6); a queue is `0`, or `qo0%5` of the
    message at offset 5. Raises DecodeError."""
    def count(str word):
        return pop_number(JAVA_INT, "order_count_info", word)

    return pop_entries(text, "order_count_info", str, count)


# ---- ids of clients

def decode_unique_id(text, /):
    """A client's unique id (UNIQ_KEY) -> (address, process id, class loader's hash, milliseconds, counter).

    The process id has 16 bits, the milliseconds count from the beginning of a month, the counter has 16 bits and
    wraps (section 8). Raises DecodeError.
    """
    cdef bytes octets = id_octets(text, "uniq_key", (16, 28))
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(octets)
    cdef uint32_t n = <uint32_t>PyBytes_GET_SIZE(octets) - 12
    return (address_text(p, n), load_u16(p + n), <int32_t>load_u32(p + n + 2), <int32_t>load_u32(p + n + 6),
            load_u16(p + n + 10))


def encode_unique_id(address, process_id, class_loader_hash, milliseconds, counter, /):
    """The parts of a client's unique id -> its digits; the process id is truncated to 16 bits."""
    octets = address_octets(address, "address")
    whole_number(counter, 0xFFFF, "counter")
    return (octets + (int(process_id) & 0xFFFF).to_bytes(2, "big") + (int(class_loader_hash) & 0xFFFFFFFF).to_bytes(4, "big")
            + (int(milliseconds) & 0xFFFFFFFF).to_bytes(4, "big") + int(counter).to_bytes(2, "big")).hex().upper()


# ------------------------------------------------------------------------------------------------ compressed bodies

cdef object decompressor(str name):
    """A new decompressor with `decompress(octets, max_length)` and `eof`. The libraries are extras: ImportError."""
    if name == "zlib":
        return zlib.decompressobj()
    if name == "lz4":
        from lz4.frame import LZ4FrameDecompressor
        return LZ4FrameDecompressor()
    try:
        from compression.zstd import ZstdDecompressor
    except ImportError:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor()


cdef tuple COMPRESSION_NAMES = ("zlib", "lz4", "zstd", "zlib")      # by bits 8 to 10 of sysFlag; the first one: before 5.0


cdef enum:
    ROCKETMQ_INFLATED_MAX = 64 << 20        # default limit of the decompressed bodies of one call, in octets,
    ROCKETMQ_INFLATED_RATIO = 100           # or this many times the octets that contain them, if that is more


cdef bytes decompressed(const uint8_t* p, uint32_t size, int sys_flag, int64_t limit, int64_t offset, int index,
                        int64_t all_left=0x7FFFFFFFFFFFFFFF):
    """The body of a message. It decompresses to at most `limit` octets and at most `all_left`, the rest of the call's limit."""
    cdef Fault f
    cdef int check = 0
    cdef bint is_last = all_left < limit        # the call's limit is checked first
    limit = min(limit, all_left)
    name = COMPRESSION_NAMES[sys_flag >> 8 & 7]
    try:
        tool = decompressor(name)
        body = tool.decompress(p[:size], limit + 1)
        while not tool.eof and len(body) <= limit and not getattr(tool, "needs_input", True):
            body += tool.decompress(b"", limit + 1 - len(body))
        if len(body) > limit:
            check = ROCKETMQ_CHECK_BODIES_TOO_LARGE if is_last else ROCKETMQ_CHECK_BODY_TOO_LARGE
        elif not tool.eof:
            check = ROCKETMQ_CHECK_BODY_COMPRESSED
    except MemoryError:
        raise
    except ImportError:
        check = ROCKETMQ_CHECK_BODY_LIBRARY
    except Exception:                   # each of the three libraries has its own exceptions
        check = ROCKETMQ_CHECK_BODY_COMPRESSED
    if check:
        fault(&f, rocketmq_checks[check].status, check, ROCKETMQ_FIELD_MESSAGES_BODY, offset,
              limit + 1 if rocketmq_checks[check].status == LIMIT else 0, limit, 0)
        f.index = index
        raise_fault(&ROCKETMQ_TABLES, &f, 0)
    return body


def compress(body, /, *, method="zlib"):
    """(compressed bytes, bits of sysFlag for the method); method: "zlib" (level 5, as producers do), "lz4" or "zstd"."""
    cdef bytes octets = take_block(body)
    if method == "zlib":
        return zlib.compress(octets, 5), 0x301
    if method == "lz4":
        from lz4.frame import compress
        return compress(octets), 0x101
    if method != "zstd":
        raise ValueError(f"method must be 'zlib', 'lz4' or 'zstd', not {method!r}")
    try:
        from compression.zstd import compress as zstd_compress
    except ImportError:
        from backports.zstd import compress as zstd_compress
    return zstd_compress(octets), 0x201


# ------------------------------------------------------------------------------------------------ stored messages

@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class MessageExt:
    """A stored message, as in responses to PULL, POP, QUERY_MESSAGE and VIEW_MESSAGE_BY_ID (7.1). Immutable; equal by value.

    Hosts are (address, port). `body` is bytes or None, decompressed unless decompress=False: then bit 0 of `sys_flag` is
    cleared, as in the Java reader, and `encode()` still returns the bytes that were read. `properties` is a read-only
    mapping, None if it is empty. `version` is 1 or 2, from the magic code: in version 2 the length of the topic
    has two bytes. Times are milliseconds since 1970.
    """
    cdef bytes block
    cdef RocketmqMessageView m
    cdef bytes inflated             # the body, if it is compressed in the octets
    cdef object cached_properties

    __match_args__ = ("topic", "body", "properties", "queue_id", "queue_offset", "physical_offset", "flag", "sys_flag",
                      "born_timestamp", "born_host", "store_timestamp", "store_host", "reconsume_times",
                      "prepared_transaction_offset", "version")

    def __init__(self, *, topic, body=None, properties=None, queue_id=0, queue_offset=0, physical_offset=0, flag=0,
                 sys_flag=0, born_timestamp=0, born_host=("0.0.0.0", 0), store_timestamp=0,
                 store_host=("0.0.0.0", 0), reconsume_times=0, prepared_transaction_offset=0, version=None):
        cdef Writer w = new_writer()
        cdef bytes text = utf8_octets(topic, "topic")
        cdef bytes props = properties_octets(properties)
        cdef bytes octets = b"" if body is None else take_block(body)
        cdef bytes born = address_octets(born_host[0], "born_host")
        cdef bytes store = address_octets(store_host[0], "store_host")
        cdef int magic = given_version(version, len(text))
        cdef int64_t flags = number32(sys_flag, "sys_flag")
        flags &= ~<int64_t>(ROCKETMQ_BORN_V6 | ROCKETMQ_STORE_V6)
        flags |= (ROCKETMQ_BORN_V6 if len(born) == 16 else 0) | (ROCKETMQ_STORE_V6 if len(store) == 16 else 0)
        w.put_u32(0)
        w.put_u32(<uint32_t>(ROCKETMQ_MAGIC_V1 if magic == 1 else ROCKETMQ_MAGIC_V2))
        w.put_u32(<uint32_t>(zlib.crc32(octets) & 0x7FFFFFFF))
        w.put_u32(<uint32_t>number32(queue_id, "queue_id"))
        w.put_u32(<uint32_t>number32(flag, "flag"))
        put_u64(w, number64(queue_offset, "queue_offset"))
        put_u64(w, number64(physical_offset, "physical_offset"))
        w.put_u32(<uint32_t>flags)
        put_u64(w, number64(born_timestamp, "born_timestamp"))
        put_host(w, born, born_host[1], "born_host")
        put_u64(w, number64(store_timestamp, "store_timestamp"))
        put_host(w, store, store_host[1], "store_host")
        w.put_u32(<uint32_t>number32(reconsume_times, "reconsume_times"))
        put_u64(w, number64(prepared_transaction_offset, "prepared_transaction_offset"))
        w.put_u32(<uint32_t>whole_number(len(octets), 0x7FFFFFFF, "body"))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
        if magic == 1:
            w.put_u8(<uint8_t>PyBytes_GET_SIZE(text))
        else:
            w.put_u16(<uint16_t>whole_number(len(text), 0x7FFF, "topic"))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))
        w.put_u16(<uint16_t>whole_number(len(props), 0x7FFF, "properties"))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(props), <size_t>PyBytes_GET_SIZE(props))
        store_u32(w.out.at, <uint32_t>w.out.size)
        self.adopt(PyBytes_FromStringAndSize(<const char*>w.out.at, <Py_ssize_t>w.out.size))

    cdef int adopt(self, bytes octets) except -1:
        cdef Fault f
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(octets)
        if rocketmq_read_message(p, p, p + PyBytes_GET_SIZE(octets), 0, &self.m, &f) != OK:
            raise encode_error(&ROCKETMQ_TABLES, &f)
        self.block = octets
        return 0

    # ---- fields

    @property
    def total_size(self):
        """The size as stored; the Java reader ignores it."""
        return self.m.total_size

    @property
    def magic_code(self):
        return <uint32_t>self.m.magic_code

    @property
    def version(self):
        return 2 if self.m.magic_code == ROCKETMQ_MAGIC_V2 else 1

    @property
    def body_crc(self):
        """CRC-32 of the stored body, which may be compressed, without its top bit."""
        return self.m.body_crc

    @property
    def queue_id(self):
        return self.m.queue_id

    @property
    def flag(self):
        return self.m.flag

    @property
    def queue_offset(self):
        return self.m.queue_offset

    @property
    def physical_offset(self):
        return self.m.physical_offset

    @property
    def sys_flag(self):
        return self.m.sys_flag if self.inflated is None else self.m.sys_flag & ~ROCKETMQ_COMPRESSED

    @property
    def born_timestamp(self):
        return self.m.born_timestamp

    @property
    def store_timestamp(self):
        return self.m.store_timestamp

    @property
    def born_host(self):
        return address_text(self.m.born_host.at, self.m.born_host.size), self.m.born_port

    @property
    def store_host(self):
        return address_text(self.m.store_host.at, self.m.store_host.size), self.m.store_port

    @property
    def reconsume_times(self):
        return self.m.reconsume_times

    @property
    def prepared_transaction_offset(self):
        return self.m.prepared_transaction_offset

    @property
    def body(self):
        if self.inflated is not None:
            return self.inflated
        if self.m.body.at == NULL:
            return None
        return PyBytes_FromStringAndSize(<const char*>self.m.body.at, self.m.body.size)

    @property
    def topic(self):
        return rocketmq_utf8(self.m.topic.at, self.m.topic.size)

    @property
    def properties(self):
        if self.cached_properties is None and self.m.properties.at != NULL:
            self.cached_properties = MappingProxyType(rocketmq_properties(self.m.properties.at, self.m.properties.size))
        return self.cached_properties

    @property
    def properties_string(self):
        """The properties as stored in the message; "" if there are none."""
        return PyUnicode_DecodeUTF8(<const char*>self.m.properties.at, self.m.properties.size, "replace")

    # ---- what properties say

    cdef object property_of(self, str name):
        return None if self.properties is None else self.properties.get(name)

    @property
    def tags(self):
        return self.property_of("TAGS")

    @property
    def keys(self):
        return self.property_of("KEYS")

    @property
    def offset_msg_id(self):
        """The broker's id: its address and the physical offset."""
        return rocketmq_id(&self.m)

    @property
    def msg_id(self):
        """The client's id (UNIQ_KEY), otherwise the broker's."""
        unique = self.property_of("UNIQ_KEY")
        return self.offset_msg_id if unique is None else unique

    # ---- octets and value

    def encode(self):
        """The bytes: those it was decoded from, or those of a constructor."""
        return PyBytes_FromStringAndSize(<const char*>self.m.at, self.m.size)

    cdef tuple values(self):
        return tuple([getattr(self, name) for name in type(self).__match_args__])

    def __eq__(self, other):
        cdef MessageExt that
        if not isinstance(other, MessageExt):
            return NotImplemented
        that = <MessageExt>other
        if self.m.size == that.m.size and memcmp(self.m.at, that.m.at, self.m.size) == 0 and \
                (self.inflated is None) == (that.inflated is None):
            return True
        return self.values() == that.values()

    def __hash__(self):
        return hash((self.topic, self.body, self.m.queue_id, self.m.queue_offset, self.m.physical_offset))

    def __repr__(self):
        shown = []
        for name in self.__match_args__:
            value = getattr(self, name)
            if name == "body" and value is not None:
                shown.append(f"body={shown_octets(value)}")
            elif name == "properties" and value is not None:
                shown.append(f"properties={dict(value)!r}")
            elif value is not None and value != 0:
                shown.append(f"{name}={value!r}")
        return f"rocketmq.MessageExt({', '.join(shown)})"

    def __reduce__(self):
        return restore_message, (self.encode(), self.inflated)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


def restore_message(bytes octets not None, inflated):
    """Unpickle a stored message."""
    cdef MessageExt self = MessageExt.__new__(MessageExt)
    self.adopt(octets)
    self.inflated = inflated
    return self


cdef bytes utf8_octets(object text, str field):
    if not isinstance(text, str):
        raise TypeError(f"{field} must be a str, not {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise EncodeError(f"{field}: a surrogate has no UTF-8 form") from None


cdef int given_version(object version, Py_ssize_t topic_size) except -1:
    """1 or 2; None: 2 if the topic needs it, as brokers do."""
    if version is None:
        return 1 if topic_size <= 127 else 2
    if version not in (1, 2):
        raise EncodeError(f"version must be 1, 2 or None, not {version!r}")
    if version == 1 and topic_size > 127:
        raise EncodeError(f"topic: {topic_size} bytes, the limit of version 1 is 127")
    return version


cdef inline int64_t signed_number(object value, int bits, str field) except? -1:
    cdef int overflow = 0
    cdef int64_t plain
    if PyLong_CheckExact(value):
        plain = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and plain >> (bits - 1) == plain >> 63:
            return plain
    return any_signed_number(value, bits, field)


cdef int64_t any_signed_number(object value, int bits, str field) except? -1:
    if not PyIndex_Check(value):
        raise TypeError(f"{field} must be an int, not {type(value).__name__}")
    number = PyNumber_Index(value)
    if not fits(number, bits):
        raise EncodeError(f"{field}: {number} has more than {bits} bits")
    return number


cdef inline int32_t number32(object value, str field) except? -1:
    return <int32_t>signed_number(value, 32, field)


cdef inline int64_t number64(object value, str field) except? -1:
    return signed_number(value, 64, field)


cdef int put_u64(Writer w, int64_t v) except -1:
    w.put_u32(<uint32_t>(<uint64_t>v >> 32))
    return w.put_u32(<uint32_t>v)


cdef int put_host(Writer w, bytes address, object port, str field) except -1:
    w.put_octets(<const uint8_t*>PyBytes_AS_STRING(address), <size_t>PyBytes_GET_SIZE(address))
    return w.put_u32(<uint32_t>whole_number(port, 65535, field))


cdef str rocketmq_id(const RocketmqMessageView* m):
    cdef uint8_t[56] digits
    return digits[:rocketmq_write_id(m, digits)].decode("ascii")


cdef int rocketmq_write_id(const RocketmqMessageView* m, uint8_t* out) noexcept nogil:
    """Write the offset message id to `out`, which has space for 56 digits; return its length."""
    cdef uint8_t[28] octets
    cdef int n = <int>m.store_host.size, i
    memcpy(octets, m.store_host.at, m.store_host.size)
    store_u32(octets + n, <uint32_t>m.store_port)
    store_u32(octets + n + 4, <uint32_t>(<uint64_t>m.physical_offset >> 32))
    store_u32(octets + n + 8, <uint32_t>m.physical_offset)
    n += 12
    for i in range(n):
        out[2 * i] = <uint8_t>b"0123456789ABCDEF"[octets[i] >> 4]
        out[2 * i + 1] = <uint8_t>b"0123456789ABCDEF"[octets[i] & 15]
    return 2 * n


def decode_messages(data, *, bint decompress=True, bint check_crc=False, strictness=STRICT_MODE,
                    body_size=ROCKETMQ_FRAME_MAX, max_inflated=ROCKETMQ_INFLATED_MAX):
    """The stored messages of a body, back to back (7.1), as a tuple of MessageExt.

    decompress: decompress bodies; lz4 and zstd are extras (`wirefmt[rocketmq]`): if one is missing, STRICT raises
    Unsupported and LAX leaves the body compressed. body_size: decompressed bytes of one body at most (16 MiB).
    max_inflated: decompressed bytes of all bodies at most (64 MiB), or 100 times len(data) if that is more.
    check_crc: a body whose CRC does not match is an error; real clients do not check it.

    Raises DecodeError at the first malformed message, with those before it in `messages`; in LAX, as in the
    Java reader, it and all messages after it are dropped instead. LimitExceeded is raised in LAX, too.
    """
    cdef bytes block = take_block(data)
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(block)
    cdef const uint8_t* end = base + PyBytes_GET_SIZE(block)
    cdef const uint8_t* p = base
    cdef MessageExt message
    cdef bint strict = is_strict(strictness)
    cdef int64_t limit = whole_number(body_size, 0x7FFFFFFF, "body_size")
    cdef int64_t all_left = max(<int64_t>whole_number(max_inflated, 0x7FFFFFFFFFFFFFFF, "max_inflated"),
                                <int64_t>ROCKETMQ_INFLATED_RATIO * PyBytes_GET_SIZE(block))
    out = []
    try:
        while p < end:
            try:
                message = next_message(block, base, p, end, len(out), decompress, check_crc, limit, all_left)
            except Unsupported:
                if strict:
                    raise
                message = next_message(block, base, p, end, len(out), False, check_crc, limit, all_left)
            if message.inflated is not None:
                all_left -= PyBytes_GET_SIZE(message.inflated)
            out.append(message)
            p += message.m.size
    except DecodeError as error:
        if strict or isinstance(error, LimitExceeded):
            error.messages = tuple(out)
            raise
    return tuple(out)


cdef MessageExt next_message(bytes block, const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                             bint decompress, bint check_crc, int64_t limit, int64_t all_left):
    cdef MessageExt message = MessageExt.__new__(MessageExt)
    cdef Fault f
    if rocketmq_read_message(base, p, end, index, &message.m, &f) != OK:
        raise_fault(&ROCKETMQ_TABLES, &f, 0)
    message.block = block
    if check_crc and message.m.body.at != NULL:
        crc = zlib.crc32(message.m.body.at[:message.m.body.size]) & 0x7FFFFFFF
        if crc != message.m.body_crc:
            rocketmq_message_bad(base, p + 8, ROCKETMQ_CHECK_MESSAGE_CRC, ROCKETMQ_FIELD_MESSAGES_BODY_CRC, index, &f)
            raise_fault(&ROCKETMQ_TABLES, &f, 0)
    if decompress and message.m.sys_flag & ROCKETMQ_COMPRESSED and message.m.body.at != NULL:
        message.inflated = decompressed(message.m.body.at, message.m.body.size, message.m.sys_flag, limit,
                                        message.m.body.at - base, index, all_left)
    return message


# ------------------------------------------------------------------------------------------------ batches

@cython.final
@cython.no_gc
cdef class Message:
    """A message of a batch that a producer sends (7.2); it has no topic. Immutable; equal by value."""
    cdef readonly bytes body
    cdef readonly int flag
    cdef readonly str properties_string

    __match_args__ = ("body", "properties", "flag")

    def __init__(self, *, body=b"", properties=None, flag=0):
        self.flag = number32(flag, "flag")
        self.properties_string = properties_octets(properties).decode("utf-8", "replace")
        self.body = take_block(body)

    @property
    def properties(self):
        return MappingProxyType(decode_properties(self.properties_string))

    def encode(self):
        """The bytes of this item."""
        cdef Writer w = new_writer()
        props = self.properties_string.encode("utf-8")
        whole_number(len(props), 0x7FFF, "properties")
        w.put_u32(<uint32_t>whole_number(22 + len(self.body) + len(props), 0x7FFFFFFF, "body"))
        w.put_u32(0)
        w.put_u32(0)
        w.put_u32(<uint32_t>self.flag)
        w.put_u32(<uint32_t>len(self.body))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(self.body), <size_t>PyBytes_GET_SIZE(self.body))
        w.put_u16(<uint16_t>len(props))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(props), <size_t>PyBytes_GET_SIZE(props))
        return PyBytes_FromStringAndSize(<const char*>w.out.at, <Py_ssize_t>w.out.size)

    cdef tuple values(self):
        return self.body, self.properties_string, self.flag

    def __eq__(self, other):
        if not isinstance(other, Message):
            return NotImplemented
        return self.values() == (<Message>other).values()

    def __hash__(self):
        return hash(self.values())

    def __repr__(self):
        properties = self.properties_string
        if any([secret_name(name) for name in self.properties]):
            properties = dict(self.properties)          # secret values hide themselves
        return f"rocketmq.Message(body={shown_octets(self.body)}, properties={properties!r}, flag={self.flag})"

    def __reduce__(self):
        return restore_item, self.values()


def restore_item(body, properties, flag):
    """Unpickle a message of a batch."""
    return Message(body=body, properties=properties, flag=flag)


def decode_batch_messages(data, /):
    """The messages of a SEND_BATCH_MESSAGE body (7.2), as a tuple of Message. Raises DecodeError."""
    cdef bytes block = take_block(data)
    cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(block)
    cdef const uint8_t* end = base + PyBytes_GET_SIZE(block)
    cdef const uint8_t* p = base
    cdef RocketmqMessageView m
    cdef Fault f
    out = []
    while p < end:
        if rocketmq_read_batch_item(base, p, end, <int>len(out), &m, &f) != OK:
            error = make_fault(&ROCKETMQ_TABLES, &f, 0)
            error.messages = tuple(out)
            raise error
        out.append(Message(body=m.body.at[:m.body.size], properties=m.properties.at[:m.properties.size],
                           flag=m.flag))
        p += m.size
    return tuple(out)


def encode_batch_messages(messages, /):
    """A SEND_BATCH_MESSAGE body of Messages."""
    return b"".join([(<Message?>message).encode() for message in messages])
