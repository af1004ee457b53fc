# Conversion rules as the core runs them: rows of wirefmt/convert/rules, compiled to numbers by wirefmt/convert/dialects.py.
#
# A pair of protocols has, for each field of the source and each type of value, a chain of rows. The first row whose
# condition holds converts the value; no such row: the value is not converted. Values within headers and maps have
# chains of their own, by type alone.
#
# Names below are the vocabulary of the rows. Their order is that of the enumerations; a test compares the two.


cdef enum ConvertProtocol:
    CONVERT_AMQP10 = 0
    CONVERT_AMQP091 = 1
    CONVERT_MQTT5 = 2
    CONVERT_PROTOCOLS = 3


CONVERT_PROTOCOL_NAMES = ("amqp10", "amqp091", "mqtt5")


cdef enum:
    CONVERT_FIELDS_MAX = 32     # fields of a protocol are numbered below this
    CONVERT_TYPES_MAX = 32      # and types
    CONVERT_ABSENT = 31         # type of a field that is not there
    CONVERT_KEY_TYPE = 30       # of the keys of tables


# ---- fields: where values come from, and where they go

cdef enum:                          # AMQP 1.0
    C10_DURABLE = 1
    C10_PRIORITY = 2
    C10_TTL = 3
    C10_FIRST_ACQUIRER = 4
    C10_DELIVERY_COUNT = 5
    C10_MESSAGE_ID = 6          # and the other properties, in their order
    C10_REPLY_TO = 10
    C10_CORRELATION_ID = 11
    C10_CREATION_TIME = 15
    C10_REPLY_TO_GROUP_ID = 18
    C10_DELIVERY_ANNOTATIONS = 19
    C10_MESSAGE_ANNOTATIONS = 20
    C10_APPLICATION_PROPERTIES = 21
    C10_DATA = 22               # one data section
    C10_DATA_MULTIPLE = 23      # several
    C10_AMQP_SEQUENCE = 24
    C10_AMQP_VALUE = 25
    C10_FOOTER = 26


cdef enum:                          # AMQP 0.9.1
    C91_CONTENT_TYPE = 1        # and the other properties, in their order
    C91_HEADERS = 3
    C91_DELIVERY_MODE = 4
    C91_PRIORITY = 5
    C91_EXPIRATION = 8
    C91_TIMESTAMP = 10
    C91_TYPE = 11
    C91_CLUSTER_ID = 14
    C91_PAYLOAD = 15


cdef enum:                          # MQTT 5.0
    C5_DUP = 1
    C5_QOS = 2
    C5_RETAIN = 3
    C5_PAYLOAD_FORMAT_INDICATOR = 4
    C5_MESSAGE_EXPIRY_INTERVAL = 5
    C5_TOPIC_ALIAS = 6
    C5_RESPONSE_TOPIC = 7
    C5_CORRELATION_DATA = 8
    C5_USER_PROPERTY = 9
    C5_SUBSCRIPTION_IDENTIFIER = 10
    C5_CONTENT_TYPE = 11
    C5_PAYLOAD = 12
    C5_OTHER_PROPERTY = 13      # of other packets, its name as the key


CONVERT_FIELD_NAMES = (
    ("", "header.durable", "header.priority", "header.ttl", "header.first_acquirer", "header.delivery_count",
     "properties.message_id", "properties.user_id", "properties.to", "properties.subject", "properties.reply_to",
     "properties.correlation_id", "properties.content_type", "properties.content_encoding",
     "properties.absolute_expiry_time", "properties.creation_time", "properties.group_id", "properties.group_sequence",
     "properties.reply_to_group_id", "delivery annotations", "message annotations", "application properties", "data",
     "data (multiple)", "amqp.sequence", "amqp.value", "footer"),
    ("", "properties.content_type", "properties.content_encoding", "properties.headers", "properties.delivery_mode",
     "properties.priority", "properties.correlation_id", "properties.reply_to", "properties.expiration",
     "properties.message_id", "properties.timestamp", "properties.type", "properties.user_id", "properties.app_id",
     "properties.cluster_id", "payload"),
    ("", "Dup", "QoS", "Retain", "Payload Format Indicator", "Message Expiry Interval", "Topic Alias",
     "Response Topic", "Correlation Data", "User Property", "Subscription Identifier", "Content Type", "Payload",
     "Other Property"),
)


# ---- types

cdef enum:                          # AMQP 0.9.1; those of AMQP 1.0 are Amqp10Type
    C91T_BOOL = 1
    C91T_BYTE = 2
    C91T_UBYTE = 3
    C91T_SHORT = 4
    C91T_USHORT = 5
    C91T_INT = 6
    C91T_UINT = 7
    C91T_LONG = 8
    C91T_FLOAT = 9
    C91T_DOUBLE = 10
    C91T_DECIMAL = 11
    C91T_LONGSTR = 12
    C91T_ARRAY = 13
    C91T_TIMESTAMP = 14
    C91T_TABLE = 15
    C91T_VOID = 16
    C91T_BINARY = 17
    C91T_SHORTSTR = 18
    C91T_OCTET = 19


cdef enum:                          # MQTT 5.0
    C5T_BITS = 1
    C5T_USHORT = 2
    C5T_UINT = 3
    C5T_UTF8 = 4
    C5T_BINARY = 5
    C5T_PAIR = 6


CONVERT_TYPE_NAMES = (
    ("", "null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float", "double",
     "decimal32", "decimal64", "decimal128", "char", "timestamp", "uuid", "binary", "utf8", "symbol", "list", "map",
     "array", "described"),
    ("", "bool", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "float", "double", "decimal", "longstr",
     "array", "timestamp", "table", "void", "binary", "shortstr", "octet"),
    ("", "bits", "ushort", "uint", "utf8", "binary", "utf8 pair"),
)

# letters of field values by C91T_... the other way round is convert_type_of_letter
cdef const char* CONVERT_LETTERS = b"\0tbBsuIilfdDSATFVx"


# ---- conditions and conversions

cdef enum ConvertWhen:
    WHEN_ANY = 0
    WHEN_SHORTSTR = 1           # fewer than 256 octets of UTF-8 without NUL
    WHEN_SHORT = 2              # fewer than 256 octets
    WHEN_OVER_255 = 3
    WHEN_UTF8 = 4               # valid, without NUL
    WHEN_UTF8_4096 = 5          # and at most 4096 octets
    WHEN_ASCII = 6
    WHEN_ASCII_SHORT = 7
    WHEN_URN_UUID = 8           # urn:uuid: and 8-4-4-4-12 hexadecimal digits
    WHEN_URN_UUID_LOOSE = 9     # urn:uuid: and 36 octets, hexadecimal digits in pairs for 16 octets and more, dashes anywhere
    WHEN_NUMERIC = 10           # a whole number that is not negative
    WHEN_NOT_EXPIRATION = 11    # none, or of more than ten years in milliseconds
    WHEN_FINITE = 12            # neither NaN nor infinite
    WHEN_KEY_SHORTSTR = 13
    WHEN_KEY_SHORT = 14
    WHEN_KEY_ASCII = 15
    WHEN_QUEUE = 16             # /queues/:queue, fewer than 256 octets
    WHEN_MQTT_EXCHANGE = 17     # /exchanges/:exchange/:key, the exchange being MQTT's
    WHEN_JMS_TOPIC = 18         # the message says that the address is a topic's
    WHEN_UNSET = 19             # nothing has gone to the target yet
    WHEN_FORMATTED = 20         # Payload Format Indicator 1
    WHEN_AMQP_ENCODED = 21      # the message's type is amqp-1.0
    WHEN_OLD_MQTT_EXCHANGE = 22     # /exchange/:exchange/:key, the exchange being MQTT's
    WHEN_COUNT = 23


CONVERT_WHEN_NAMES = (
    "ANY", "SHORTSTR", "SHORT", "OVER_255", "UTF8", "UTF8_4096", "ASCII", "ASCII_SHORT", "URN_UUID",
    "URN_UUID_LOOSE", "NUMERIC", "NOT_EXPIRATION", "FINITE", "KEY_SHORTSTR", "KEY_SHORT", "KEY_ASCII",
    "QUEUE", "MQTT_EXCHANGE", "JMS_TOPIC", "UNSET", "FORMATTED", "AMQP_ENCODED",
    "OLD_MQTT_EXCHANGE",
)


cdef enum ConvertHow:
    HOW_DROPPED = 0
    HOW_REFUSED = 1
    HOW_SAME = 2                # the octets, or the number
    HOW_BY_TYPE = 3             # by the table of types
    HOW_TEXT = 4                # a scalar as text
    HOW_URN_UUID = 5            # 16 octets as urn:uuid:...
    HOW_UUID = 6                # the other way round
    HOW_NUMBER = 7              # text as a number
    HOW_DECIMAL = 8             # a number as text
    HOW_MS_TO_S = 9
    HOW_S_TO_MS = 10
    HOW_S_TO_MS_TEXT = 11
    HOW_MS_TEXT_TO_S = 12
    HOW_TRUE_2_FALSE_1 = 13     # durable to delivery_mode
    HOW_TRUE_1_FALSE_0 = 14     # durable to QoS
    HOW_TWO_IS_TRUE = 15        # delivery_mode to durable
    HOW_TWO_IS_1 = 16           # delivery_mode to QoS
    HOW_NOT_0_IS_TRUE = 17      # QoS to durable
    HOW_NOT_0_IS_2 = 18         # QoS to delivery_mode
    HOW_FALSE = 19
    HOW_ONE = 20
    HOW_QUEUE_NAME = 21         # /queues/:queue to the queue, percent-decoded
    HOW_QUEUE_ADDRESS = 22      # the other way round
    HOW_TOPIC_ADDRESS = 23      # MQTT topic to /exchanges/:exchange/:key, the key percent-encoded
    HOW_ADDRESS_TOPIC = 24      # the other way round
    HOW_ROUTING_KEY = 25        # MQTT topic to routing key
    HOW_TOPIC = 26              # the other way round
    HOW_OLD_TOPIC_ADDRESS = 27  # MQTT topic to /exchange/:exchange/:key, as it is
    HOW_OLD_ADDRESS_TOPIC = 28  # the other way round
    HOW_JOINED = 29             # several data sections as one
    HOW_AMQP_ENCODED = 30       # the body as it is encoded
    HOW_AMQP_BODY = 31          # the body written anew, without the footer
    HOW_FORMATTED = 32          # text as payload, Payload Format Indicator 1
    HOW_SECTION = 33            # octets that are a whole section
    HOW_SECTIONS = 34           # octets that are sections of a message
    HOW_DEATHS = 35             # x-opt-deaths to x-death
    HOW_FIRST_OF_EACH = 36      # types of pairs: the first of a key, in their order
    HOW_SORTED = 37             # types of pairs: the first of a key, sorted by key
    HOW_SECTION_TOO = 38        # as SECTION, and the next row has the value as well
    HOW_COUNT = 39


CONVERT_HOW_NAMES = (
    "DROPPED", "REFUSED", "SAME", "BY_TYPE", "TEXT", "URN_UUID", "UUID", "NUMBER", "DECIMAL", "MS_TO_S", "S_TO_MS",
    "S_TO_MS_TEXT", "MS_TEXT_TO_S", "TRUE_2_FALSE_1", "TRUE_1_FALSE_0", "TWO_IS_TRUE", "TWO_IS_1", "NOT_0_IS_TRUE",
    "NOT_0_IS_2", "FALSE", "ONE", "QUEUE_NAME", "QUEUE_ADDRESS", "TOPIC_ADDRESS", "ADDRESS_TOPIC", "ROUTING_KEY",
    "TOPIC", "OLD_TOPIC_ADDRESS", "OLD_ADDRESS_TOPIC", "JOINED", "AMQP_ENCODED", "AMQP_BODY", "FORMATTED", "SECTION",
    "SECTIONS", "DEATHS", "FIRST_OF_EACH", "SORTED", "SECTION_TOO",
)


cdef struct ConvertRow:
    uint16_t next               # the row to try if this one's condition does not hold; 0: none
    uint8_t when                # a ConvertWhen
    uint8_t how                 # a ConvertHow
    uint8_t target              # field of the target's protocol; 0: none
    uint8_t type                # type there; 0: as the conversion makes it
    uint8_t moved               # the value goes to another kind of place: say so
    uint8_t key_prefix          # `key` is how keys begin
    uint16_t key_size, name_size
    const char* key             # key of a header, annotation or property that the row is for; NULL: any
    const char* name            # key that it gets; NULL: the one it has
    uint16_t number             # row of `ids`


cdef struct ConvertPair:
    uint16_t first[CONVERT_FIELDS_MAX][CONVERT_TYPES_MAX]
    uint16_t item[CONVERT_TYPES_MAX]            # values within headers, annotations, properties
    uint8_t there                               # the pair has rules


@cython.final
cdef class ConvertRules:
    """A dialect, compiled. Immutable: any number of threads may convert by it.

    ConvertRules(rows, ids, valid=False): `rows` are tuples (source, target, field, types, key, when, how, to_field, to_type,
    name, moved, number), numbers all but the keys; field 0 is a row of types. `valid`: values that the target's
    specification does not allow are dropped, whatever the row says.
    """
    cdef ConvertRow* rows
    cdef ConvertPair* pairs
    cdef readonly tuple ids
    cdef readonly bint valid
    cdef bint same_is_identity      # a message for its own protocol stays octet for octet; else it is written anew
    cdef bint annotation_keys       # keys of annotations that do not begin with x- are refused
    cdef bint short_arrays          # arrays whose elements are in a short encoding are refused
    cdef bint all_fields            # nulls behind the last field of a header or properties are written
    cdef bint sections              # so are messages without a body, or with sections out of order
    cdef uint8_t short_strings      # octets of the longest string or binary whose size is written in one octet
    cdef list names                 # keeps the keys

    def __init__(self, rows, ids, *, bint valid=False, bint annotation_keys=False, bint same_is_identity=True,
                 bint short_arrays=False, bint sections=True, bint all_fields=False, uint8_t short_strings=255):
        cdef ConvertRow* row
        cdef ConvertPair* pair
        cdef uint16_t* slot
        cdef int i = 1
        rows = list(rows)
        if len(rows) > 0xFFFF:
            raise ValueError("more than 65535 rows")
        self.rows = <ConvertRow*>calloc(len(rows) + 1, sizeof(ConvertRow))
        self.pairs = <ConvertPair*>calloc(CONVERT_PROTOCOLS * CONVERT_PROTOCOLS, sizeof(ConvertPair))
        if self.rows == NULL or self.pairs == NULL:
            raise MemoryError
        self.ids = tuple(ids)
        self.valid = valid
        self.annotation_keys = annotation_keys
        self.same_is_identity = same_is_identity
        self.short_arrays = short_arrays
        self.sections = sections
        self.all_fields = all_fields
        self.short_strings = short_strings
        self.names = []
        # last first, so that each row only has to know the one after it
        for source, target, field, type_, key, when, how, to_field, to_type, name, moved, number in reversed(rows):
            if not (0 <= source < CONVERT_PROTOCOLS and 0 <= target < CONVERT_PROTOCOLS and 0 <= field < CONVERT_FIELDS_MAX and
                    0 <= type_ < CONVERT_TYPES_MAX and 0 <= when < WHEN_COUNT and 0 <= how < HOW_COUNT and
                    0 <= to_field < CONVERT_FIELDS_MAX and 0 <= to_type < CONVERT_TYPES_MAX and 0 <= number < len(self.ids)):
                raise ValueError(f"row {len(rows) - i} has a number that names nothing")
            row = &self.rows[i]
            pair = &self.pairs[<int>source * CONVERT_PROTOCOLS + <int>target]
            pair.there = 1
            slot = &pair.item[<int>type_] if field == 0 else &pair.first[<int>field][<int>type_]
            row.next = slot[0]
            row.when = when
            row.how = how
            row.target = to_field
            row.type = to_type
            row.moved = moved
            row.number = number
            self.keep_key(row, key, name)
            slot[0] = <uint16_t>i
            i += 1

    cdef int keep_key(self, ConvertRow* row, bytes key, bytes name) except -1:
        if key is not None:
            row.key_prefix = key.endswith(b"*")
            key = key[:len(key) - 1] if row.key_prefix else key
            self.names.append(key)
            row.key = PyBytes_AS_STRING(key)
            row.key_size = <uint16_t>PyBytes_GET_SIZE(key)
        if name is not None:
            self.names.append(name)
            row.name = PyBytes_AS_STRING(name)
            row.name_size = <uint16_t>PyBytes_GET_SIZE(name)
        return 0

    def __dealloc__(self):
        free(self.rows)
        free(self.pairs)


cdef inline const ConvertPair* convert_pair(ConvertRules rules, int source, int target) noexcept:
    return &rules.pairs[source * CONVERT_PROTOCOLS + target]
