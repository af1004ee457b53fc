# What a RocketMQ frame is read to: spans of its octets.

cdef enum RocketmqSerializeType:
    ROCKETMQ_JSON = 0
    ROCKETMQ_BINARY = 1


cdef enum RocketmqFlag:
    ROCKETMQ_RESPONSE = 1
    ROCKETMQ_ONEWAY = 2


cdef enum RocketmqForm:         # how the octets encode a text
    ROCKETMQ_NULL = 0
    ROCKETMQ_OCTETS = 1         # unchanged; in the binary header ill-formed UTF-8 is replaced, not refused
    ROCKETMQ_ESCAPED = 2        # a JSON string with escapes, without its quotes
    ROCKETMQ_VALUE = 3          # a JSON value that is not a string: fractions, objects, arrays


cdef enum:
    ROCKETMQ_NESTING = 64       # of JSON values
    ROCKETMQ_BINARY_LEAST = 21  # octets of a binary header without remark and fields
    ROCKETMQ_MAGIC_V1 = <int32_t>0xDAA320A7
    ROCKETMQ_MAGIC_V2 = <int32_t>0xDAA320AB


cdef struct RocketmqText:
    const uint8_t* at
    uint32_t size
    uint8_t form                # a RocketmqForm


cdef struct RocketmqFrameView:  # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size               # the whole frame, including its length word
    uint8_t serialize_type
    uint8_t has_opaque          # JSON may omit it: the real reader then generates one
    uint8_t ascii               # all texts of extFields are ASCII; JSON: the whole header
    uint8_t written             # JSON: exactly as the Java code writes it, except the values of extFields
    uint32_t ext_count          # upper bound of the entries of extFields: of two entries of one name the last counts
    int32_t code, version, opaque, flag
    int16_t language            # number; -1: null or unknown
    RocketmqText remark
    Span header
    Span ext                    # JSON: the object after its `{`; binary: the map. at == NULL: null
    Span body                   # at == NULL: absent, which includes a body of no octets


cdef enum:
    ROCKETMQ_FIELDS_KEPT = 32
    ROCKETMQ_PARTS = 64             # names and values of a properties string
    ROCKETMQ_SHAPE_STEP = 48        # octets between two values of a header
    ROCKETMQ_SHAPE_ENDS = 128       # octets before its first value, before opaque, after it
    ROCKETMQ_SHAPE_NAMES = 384      # octets of all its names
    ROCKETMQ_SHAPE_PAD = 16         # octets that may be read after them
    ROCKETMQ_SLOTS_MOST = 24        # at least ROCKETMQ_SLOTS


cdef struct RocketmqStep:       # what stands between two values of a header
    uint32_t size
    uint32_t others             # bit n: octet n of a block does not belong to it
    uint8_t[ROCKETMQ_SHAPE_STEP] text


cdef struct RocketmqShape:      # a JSON header without the values of extFields and opaque, which differ from header to header
    RocketmqFrameView view      # what every header of this shape has in common
    int count                   # fields
    int topic, properties       # fields; -1: none
    uint32_t least              # octets of a header whose values are empty
    uint32_t ext                # where extFields begins in the frame; 0: absent
    bint secret                 # one of the names is secret
    uint8_t[ROCKETMQ_SLOTS_MOST] slots                  # RocketmqSlot -> field; ROCKETMQ_FIELDS_KEPT: none
    uint32_t head, middle, tail                         # octets before the first value, before opaque, after it
    RocketmqStep[ROCKETMQ_FIELDS_KEPT] steps            # before each value but the first
    int32_t[ROCKETMQ_FIELDS_KEPT] name_ends             # in `names`
    RocketmqText[ROCKETMQ_FIELDS_KEPT] keys             # in `names`
    uint8_t[ROCKETMQ_SHAPE_NAMES + ROCKETMQ_SHAPE_PAD] names
    uint8_t[ROCKETMQ_SHAPE_ENDS] head_text
    uint8_t[ROCKETMQ_SHAPE_ENDS] middle_text
    uint8_t[ROCKETMQ_SHAPE_ENDS] tail_text


cdef struct RocketmqFields:     # the entries of extFields found while parsing, so that they need not be parsed again
    int count                   # of all; entries beyond ROCKETMQ_FIELDS_KEPT are not here
    int parts                   # the only escapes of the properties: \u0001 and \u0002 by turns, at `splits`; 0: not known
    bint plain                  # all values are ASCII, and without escapes except the properties with `parts`. False: not known
    const RocketmqShape* shape  # NULL: none is known
    const RocketmqText* keys
    RocketmqText[ROCKETMQ_FIELDS_KEPT] held_keys
    RocketmqText[ROCKETMQ_FIELDS_KEPT + 1] values       # the last one is null
    const uint8_t* splits[ROCKETMQ_PARTS]


cdef struct RocketmqMessageView:  # a stored message (7.1), or an item of a batch (7.2); spans, it owns nothing
    const uint8_t* at
    uint32_t size               # octets it occupies, whatever its total size says
    int32_t total_size, magic_code, body_crc, queue_id, flag, sys_flag, reconsume_times, born_port, store_port
    int64_t queue_offset, physical_offset, born_timestamp, store_timestamp, prepared_transaction_offset
    Span born_host, store_host  # 4 or 16 octets
    Span body, topic, properties        # at == NULL: none; the body may be compressed
