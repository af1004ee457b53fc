# MQTT 3.1, 3.1.1 and 5.0: what other modules may use of the codec.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from wirefmt._core cimport CText, ProtocolTables
from wirefmt._core.cursor cimport Span
from wirefmt._core.status cimport Fault, Violation

# GENERATED from wirefmt/mqtt/spec.py and wirefmt/mqtt/columns.py
include "table.pxi"
include "columns.pxi"


# ---- parse

cdef struct MqttOptions:
    uint8_t version             # 3, 4, 5; 0: not known, only CONNECT can be read
    uint8_t strict              # 1 STRICT, 0 LAX
    int8_t side                 # who sent it: 0 client, 1 server, -1 unknown
    uint32_t max_packet_size    # octets; 0: no limit
    uint32_t max_elements       # filters, codes and properties of one packet; 0: no limit
    uint8_t only_version        # 1: a CONNECT of another version is a fault; 0: a CONNECT says its own
    uint8_t cut                 # 1: the packet may end early; a payload is what there is of it
    Violation* notes             # where LAX lists what it skipped; NULL: only the first is kept
    int notes_room


cdef struct MqttPacketView:     # views into the octets; nothing owned
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
    int note                    # LAX: the first check that was skipped (a CHECKS row), 0 none
    int64_t note_offset         # where
    int note_count


cdef int mqtt_parse(const uint8_t* p, size_t n, const MqttOptions* o, MqttPacketView* out, Fault* f) noexcept nogil
cdef ProtocolTables MQTT_TABLES
