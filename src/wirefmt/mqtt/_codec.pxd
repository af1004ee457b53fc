# MQTT 3.1, 3.1.1 and 5.0: what other modules may use of the codec.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from wirefmt._core cimport CText, ProtocolTables
from wirefmt._core.be cimport load_u16, load_u32
from wirefmt._core.cursor cimport Span
from wirefmt._core.status cimport CommonOptions, Fault, Notes
from wirefmt._core.varint cimport read_varint

# GENERATED from wirefmt/mqtt/spec.py and wirefmt/mqtt/columns.py
include "table.pxi"
include "columns.pxi"


# ---- parse

cdef struct MqttOptions:
    CommonOptions common        # elements: filters, codes and properties
    uint8_t version             # 3, 4, 5; 0: unknown, only CONNECT can be read
    uint8_t only_version        # 1: a CONNECT of another version is a fault; 0: a CONNECT declares its version


cdef struct MqttPacketView:     # spans of the octets; it owns nothing
    const uint8_t* frame
    uint32_t size               # whole packet
    uint8_t type, flags, version, form, has_packet_identifier, has_reason_code
    uint8_t acknowledge_flags, reason_code
    uint16_t packet_identifier
    Span topic, payload, properties     # properties: the area after Property Length
    Span list                   # SUBSCRIBE/UNSUBSCRIBE filters, SUBACK/UNSUBACK codes
    uint32_t list_count
    Span protocol_name, client_identifier, will_properties, will_topic, will_payload, user_name, password
    uint8_t protocol_level, connect_flags
    uint16_t keep_alive
    uint64_t properties_seen, will_properties_seen      # bit n: property n is there
    uint32_t property_count, will_property_count
    Notes notes


cdef int mqtt_parse(const uint8_t* p, size_t n, const MqttOptions* o, MqttPacketView* out, Fault* f) noexcept nogil
cdef ProtocolTables MQTT_TABLES


# ---- properties of a packet that mqtt_parse has accepted

cdef struct MqttProperty:
    uint32_t identifier
    uint32_t number             # of the integer types
    const uint8_t* at           # its value on the wire, which ends where the next property begins
    Span name                   # of a User Property
    Span value                  # of strings, binaries, User Properties; absent: a number


cdef inline const uint8_t* mqtt_next_property(const uint8_t* p, MqttProperty* out) noexcept nogil:
    """Read the property at `p`; return the position of the next one."""
    cdef int type
    if p[0] < 0x80:
        out.identifier = p[0]
        p += 1
    else:                       # LAX accepts more octets than are needed
        p += read_varint(p, 4, &out.identifier)
    type = mqtt_properties[out.identifier].type
    out.at = p
    if type == MQTT_PAIR or type == MQTT_STRING or type == MQTT_BINARY:
        if type == MQTT_PAIR:
            out.name.size = load_u16(p)
            out.name.at = p + 2
            p += 2 + out.name.size
        out.value.size = load_u16(p)
        out.value.at = p + 2
        return p + 2 + out.value.size
    out.value.at = NULL
    if type == MQTT_BYTE:
        out.number = p[0]
        return p + 1
    if type == MQTT_TWO:
        out.number = load_u16(p)
        return p + 2
    if type == MQTT_FOUR:
        out.number = load_u32(p)
        return p + 4
    return p + read_varint(p, 4, &out.number)


cdef inline bint mqtt_find_property(const Span* area, uint32_t identifier, MqttProperty* out) noexcept nogil:
    """The first property with this identifier. False: the area has none."""
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    while p < end:
        p = mqtt_next_property(p, out)
        if out.identifier == identifier:
            return True
    return False
