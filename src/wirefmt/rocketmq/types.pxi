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
    uint8_t ascii               # JSON: the size of the whole header
    uint32_t ext_count          # upper bound of the entries of extFields: of two entries of one name the last counts
    int32_t code, version, opaque, flag
    int16_t language            # number; -1: null or unknown
    RocketmqText remark
    Span header
    Span ext                    # JSON: the object after its `{`; binary: the map. at == NULL: null
    Span body                   # at == NULL: absent, which includes a body of no octets


cdef enum:
    ROCKETMQ_FIELDS_KEPT = 32


cdef struct RocketmqFields:     # the entries of extFields found while parsing, so that they need not be parsed again
    int count                   # of all; entries beyond ROCKETMQ_FIELDS_KEPT are not here
    RocketmqText[ROCKETMQ_FIELDS_KEPT] keys
    RocketmqText[ROCKETMQ_FIELDS_KEPT] values


cdef struct RocketmqMessageView:  # a stored message (7.1), or an item of a batch (7.2); spans, it owns nothing
    const uint8_t* at
    uint32_t size               # octets it occupies, whatever its total size says
    int32_t total_size, magic_code, body_crc, queue_id, flag, sys_flag, reconsume_times, born_port, store_port
    int64_t queue_offset, physical_offset, born_timestamp, store_timestamp, prepared_transaction_offset
    Span born_host, store_host  # 4 or 16 octets
    Span body, topic, properties        # at == NULL: none; the body may be compressed
