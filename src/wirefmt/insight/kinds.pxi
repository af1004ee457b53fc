# The kinds of messages as numbers: the rooms of the protocols compare numbers, not texts. RocketMQ has numbers of its own.

cdef enum ProtocolNumber:
    P_NONE = 0
    P_MQTT
    P_AMQP091
    P_AMQP10
    P_ROCKETMQ
    P_NSQ
    P_PHPMQ

cdef tuple PROTOCOL_NAMES = ("", "mqtt", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq")
cdef list _PROTOCOLS = [name.encode() for name in PROTOCOL_NAMES]       # keeps the texts alive
cdef const char* PROTOCOL_TEXT[7]
cdef Span[7] PROTOCOL_SPAN
cdef Text[7] PROTOCOL_PADDED
for _i in range(7):
    PROTOCOL_TEXT[<int>_i] = <const char*>_PROTOCOLS[_i]
    PROTOCOL_SPAN[<int>_i].at = <const uint8_t*>PROTOCOL_TEXT[<int>_i]
    PROTOCOL_SPAN[<int>_i].size = <uint32_t>len(_PROTOCOLS[_i])
    PROTOCOL_PADDED[<int>_i] = pad_text(_PROTOCOLS[_i])


cdef enum Kind:                 # in the order of KIND_NAMES
    K_NONE = 0
    # MQTT
    K_CONNECT
    K_CONNACK
    K_PUBLISH
    K_PUBACK
    K_PUBREC
    K_PUBREL
    K_PUBCOMP
    K_SUBSCRIBE
    K_SUBACK
    K_UNSUBSCRIBE
    K_UNSUBACK
    K_PINGREQ
    K_PINGRESP
    K_DISCONNECT
    K_MQTT_AUTH
    # AMQP 0.9.1
    K_START
    K_START_OK
    K_TUNE
    K_TUNE_OK
    K_OPEN
    K_OPEN_OK
    K_CLOSE
    K_CLOSE_OK
    K_BLOCKED
    K_UNBLOCKED
    K_CHANNEL_OPEN
    K_CHANNEL_OPEN_OK
    K_CHANNEL_CLOSE
    K_CHANNEL_CLOSE_OK
    K_EXCHANGE_DECLARE
    K_EXCHANGE_DECLARE_OK
    K_EXCHANGE_DELETE
    K_EXCHANGE_DELETE_OK
    K_EXCHANGE_BIND
    K_EXCHANGE_BIND_OK
    K_EXCHANGE_UNBIND
    K_EXCHANGE_UNBIND_OK
    K_QUEUE_DECLARE
    K_QUEUE_DECLARE_OK
    K_QUEUE_BIND
    K_QUEUE_BIND_OK
    K_QUEUE_UNBIND
    K_QUEUE_UNBIND_OK
    K_QUEUE_PURGE
    K_QUEUE_PURGE_OK
    K_QUEUE_DELETE
    K_QUEUE_DELETE_OK
    K_QOS
    K_QOS_OK
    K_CONSUME
    K_CONSUME_OK
    K_CANCEL
    K_CANCEL_OK
    K_BASIC_PUBLISH
    K_RETURN
    K_DELIVER
    K_GET
    K_GET_OK
    K_GET_EMPTY
    K_ACK
    K_REJECT
    K_NACK
    K_RECOVER
    K_RECOVER_OK
    K_RECOVER_ASYNC
    K_CONFIRM_SELECT
    K_CONFIRM_SELECT_OK
    K_TX_SELECT
    K_TX_SELECT_OK
    K_TX_COMMIT
    K_TX_COMMIT_OK
    K_TX_ROLLBACK
    K_TX_ROLLBACK_OK
    K_CHANNEL_FLOW
    K_CHANNEL_FLOW_OK
    K_HEARTBEAT
    K_PROTOCOL_HEADER
    K_SECURE
    K_SECURE_OK
    K_UPDATE_SECRET
    K_UPDATE_SECRET_OK
    K_ACCESS_REQUEST
    K_ACCESS_REQUEST_OK
    # AMQP 1.0
    K_SASL_INIT
    K_SASL_OUTCOME
    K_10_OPEN
    K_10_BEGIN
    K_10_ATTACH
    K_10_FLOW
    K_10_TRANSFER
    K_10_DISPOSITION
    K_10_DETACH
    K_10_END
    K_10_CLOSE
    K_10_EMPTY
    K_10_HEADER
    K_SASL_MECHANISMS
    K_SASL_CHALLENGE
    K_SASL_RESPONSE
    # NSQ
    K_IDENTIFY
    K_AUTH
    K_SUB
    K_PUB
    K_MPUB
    K_DPUB
    K_RDY
    K_FIN
    K_REQ
    K_TOUCH
    K_CLS
    K_NOP
    K_NSQ_RESPONSE
    K_NSQ_HEARTBEAT
    K_NSQ_ERROR
    K_NSQ_MESSAGE
    K_MAGIC
    # PHPMQ
    K_PHP_SEND
    K_PHP_CONSUME
    K_PHP_MESSAGE
    K_PHP_ACKNOWLEDGEMENT
    K_PHP_REQUEUE
    K_PHP_DEAD_LETTER
    K_COUNT

cdef tuple KIND_NAMES = tuple(tuple(names.split()) for names in (
    "CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP DISCONNECT AUTH",
    "connection.start connection.start-ok connection.tune connection.tune-ok connection.open connection.open-ok "
    "connection.close connection.close-ok connection.blocked connection.unblocked channel.open channel.open-ok channel.close "
    "channel.close-ok exchange.declare exchange.declare-ok exchange.delete exchange.delete-ok exchange.bind exchange.bind-ok "
    "exchange.unbind exchange.unbind-ok queue.declare queue.declare-ok queue.bind queue.bind-ok queue.unbind queue.unbind-ok "
    "queue.purge queue.purge-ok queue.delete queue.delete-ok basic.qos basic.qos-ok basic.consume basic.consume-ok "
    "basic.cancel basic.cancel-ok basic.publish basic.return basic.deliver basic.get basic.get-ok basic.get-empty basic.ack "
    "basic.reject basic.nack basic.recover basic.recover-ok basic.recover-async confirm.select confirm.select-ok tx.select "
    "tx.select-ok tx.commit tx.commit-ok tx.rollback tx.rollback-ok channel.flow channel.flow-ok heartbeat protocol-header "
    "connection.secure connection.secure-ok connection.update-secret connection.update-secret-ok access.request "
    "access.request-ok",
    "sasl-init sasl-outcome open begin attach flow transfer disposition detach end close empty protocol-header "
    "sasl-mechanisms sasl-challenge sasl-response",
    "IDENTIFY AUTH SUB PUB MPUB DPUB RDY FIN REQ TOUCH CLS NOP response heartbeat error message MAGIC",
    "MESSAGE_CLIENT_TO_SERVER CONSUME_REQUEST MESSAGE_SERVER_TO_CLIENT ACKNOWLEDGEMENT REQUEUE DEAD_LETTER",
))

cdef enum:
    KIND_SLOTS = 1024

cdef uint64_t[KIND_SLOTS] KIND_HASH
cdef int16_t[KIND_SLOTS] KIND_NUMBER


cdef inline uint64_t kind_hash(int protocol, const uint8_t* p, size_t n) noexcept nogil:
    return avalanche(hash_octets(<uint64_t>protocol << 8 ^ n, p, n)) | 1


cdef int kind_number(int protocol, const Span* kind) noexcept nogil:
    """K_NONE: a kind that means nothing here."""
    cdef uint64_t hash
    cdef int i
    if kind.size == 0:
        return K_NONE
    hash = kind_hash(protocol, kind.at, kind.size)
    i = hash >> 32 & (KIND_SLOTS - 1)
    while KIND_HASH[i]:
        if KIND_HASH[i] == hash:
            return KIND_NUMBER[i]
        i = (i + 1) & (KIND_SLOTS - 1)
    return K_NONE


cdef int fill_kinds() except -1:
    cdef bytes name
    cdef uint64_t hash
    cdef int protocol, i, number = 0
    for protocol, names in zip((P_MQTT, P_AMQP091, P_AMQP10, P_NSQ, P_PHPMQ), KIND_NAMES):
        for text in names:
            number += 1
            name = text.encode()
            hash = kind_hash(protocol, name, <size_t>len(name))
            i = hash >> 32 & (KIND_SLOTS - 1)
            while KIND_HASH[i]:
                i = (i + 1) & (KIND_SLOTS - 1)
            KIND_HASH[i] = hash
            KIND_NUMBER[i] = <int16_t>number
    if number + 1 != K_COUNT:
        raise SystemError("Kind and KIND_NAMES differ")
    return 0


fill_kinds()


cdef int protocol_number(const Span* name) noexcept nogil:
    cdef int i
    for i in range(1, 7):
        if is_text(name, PROTOCOL_TEXT[i]):
            return i
    return P_NONE
