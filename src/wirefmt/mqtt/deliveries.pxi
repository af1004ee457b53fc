# Messages of QoS 1 and 2 that we have sent, and the state of a session (4.1). Sections are those of MQTT 5.0. `Session` of
# wirefmt/mqtt/session.py is derived from `SessionFlows`.
from cpython.dict cimport PyDict_DelItem


@cython.freelist(256)
@cython.no_gc
cdef class Delivery:
    """The handle of an unfinished PUBLISH of QoS 1 or 2 that we sent.

    Attributes:
        number: counts up with each message of the session. It gives the order of sending and of sending again.
        packet_identifier: the identifier on the wire; used again once the delivery is finished.
        qos: 1 or 2.
        version: the protocol version of the packet kept.
        received: QoS 2: True once PUBREC has arrived; PUBREL is what is sent again then.
        transmitted: True once its bytes have been handed to the transport, so it is sent again with DUP 1.
        mark: the position in the outbox of the connection that sends it; None: it has not been sent on this connection.
        charged: True while it takes one of that connection's send quota.
    """
    cdef readonly int64_t number
    cdef int64_t position       # see mark; -1: none
    cdef readonly uint16_t packet_identifier
    cdef readonly uint8_t version, qos
    cdef public bint received, transmitted, charged
    cdef bytes head
    cdef object tail            # bytes, or a memoryview of bytes: nothing that can be part of a cycle

    def __init__(self, number, packet_identifier, version, bytes head not None, tail):
        self.number = number
        self.packet_identifier = packet_identifier
        self.version = version
        self.position = -1
        self.qos = (<const uint8_t*>PyBytes_AS_STRING(head))[0] >> 1 & 3
        self.head = head
        self.tail = tail

    def __repr__(self):
        return f"<Delivery {self.number}: packet identifier {self.packet_identifier}, QoS {self.qos}>"

    @property
    def mark(self):
        return None if self.position < 0 else self.position

    @mark.setter
    def mark(self, value):
        self.position = -1 if value is None else value

    @property
    def packet(self):
        """The PUBLISH packet with its identifier and full topic, DUP 0; empty once PUBREC has arrived."""
        return b"".join((self.head, self.tail))

    @property
    def message(self):
        """The PUBLISH; None once PUBREC has arrived, since the content is not needed any more."""
        return None if self.received else decode(self.packet, version=self.version)

    @property
    def size(self):
        """Bytes of the packet."""
        return self.octets()

    cdef inline int64_t octets(self) except -1:
        return PyBytes_GET_SIZE(self.head) + len(self.tail)

    @property
    def buffers(self):
        """The packet in two parts; a large payload is in the second one and has not been copied."""
        return self.head, self.tail

    def drop_content(self):
        """PUBREC has arrived: only the identifier is needed."""
        self.received = True
        self.head = b""
        self.tail = b""


def split_packet(bytes packet not None, packet_identifier):
    """A PUBLISH of QoS 1 or 2 with DUP 0 and another packet identifier, in two parts: a large one is not copied."""
    cdef const uint8_t* from_ = <const uint8_t*>PyBytes_AS_STRING(packet)
    cdef size_t size = <size_t>PyBytes_GET_SIZE(packet), at = 1
    cdef uint8_t* p
    cdef bytes head
    while at < size and from_[at] & 0x80:
        at += 1
    if at + 3 <= size:
        at += 3 + load_u16(from_ + at + 1)              # after the Topic Name
    if at + 2 > size:
        raise ValueError("not a PUBLISH with a packet identifier")
    head = new_octets(size if size < KEEP_FROM else at + 2)
    p = <uint8_t*>PyBytes_AS_STRING(head)
    memcpy(p, from_, <size_t>PyBytes_GET_SIZE(head))
    p[0] &= 0xF7
    store_u16(p + at, packet_identifier)
    if size < KEEP_FROM:
        return head, b""
    return head, PyMemoryView_FromObject(packet)[at + 2:]


cdef class SessionFlows:
    """The unfinished messages of a session, in both directions (4.1). `Session` is derived from it. Its `_note_outgoing`,
    `_note_finished` and `_note_held` write to the journal, if there is one.

    Attributes:
        identifiers: packet identifiers of ours.
        outgoing: deliveries by packet identifier, in the order of sending.
        outgoing_bytes: of their packets.
        incoming: QoS 2 messages received and not released: packet identifier -> `Held`, or None: the content is not kept.
    """
    cdef Identifiers numbers
    cdef readonly dict outgoing, incoming
    cdef readonly int64_t outgoing_bytes
    cdef public int64_t _number             # of the next handle
    cdef public list _changes               # for a journal; None: no journal

    def __init__(self, *_, **__):
        self.numbers = Identifiers()
        self.outgoing = {}
        self.incoming = {}
        self._number = 1

    @property
    def identifiers(self):
        return self.numbers

    @identifiers.setter
    def identifiers(self, Identifiers value not None):
        self.numbers = value

    def next_number(self):
        """A number for a new handle."""
        self._number += 1
        return self._number - 1

    def add(self, bytes packet not None, version):
        """Take an identifier for a PUBLISH and keep it until the delivery is finished. One must be free."""
        identifier = self.numbers.take()
        head, tail = split_packet(packet, identifier)
        return self.remember(identifier, version, head, tail)

    cdef Delivery remember(self, object identifier, int version, bytes head, object tail):
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.number = self._number
        delivery.packet_identifier = identifier
        delivery.version = <uint8_t>version
        delivery.position = -1
        delivery.qos = (<const uint8_t*>PyBytes_AS_STRING(head))[0] >> 1 & 3
        delivery.head = head
        delivery.tail = tail
        self._number += 1
        self.outgoing[identifier] = delivery
        self.outgoing_bytes += delivery.octets()
        if self._changes is not None:
            self._note_outgoing(delivery)
        return delivery

    def _keep(self, Delivery delivery not None):
        """Put a delivery among the outgoing ones: one of an earlier session, or one in place of another with its identifier."""
        before = self.outgoing.get(delivery.packet_identifier)
        if before is None:
            self.numbers.reserve(delivery.packet_identifier)
        else:
            self.outgoing_bytes -= (<Delivery?>before).octets()
        self.outgoing[delivery.packet_identifier] = delivery
        self.outgoing_bytes += delivery.octets()

    def _drop_all(self):
        """Forget the messages of both directions. Returns the deliveries, which are lost."""
        cdef tuple lost = tuple(self.outgoing.values())
        for delivery in lost:
            self.numbers.release(delivery.packet_identifier)
        self.outgoing.clear()
        self.outgoing_bytes = 0
        self.incoming.clear()
        return lost

    def receive_pubrec(self, Delivery delivery not None):
        """QoS 2: the peer has the message; drop its content."""
        self.outgoing_bytes -= delivery.octets()
        delivery.drop_content()
        if self._changes is not None:
            self._note_outgoing(delivery)

    def finish(self, Delivery delivery not None):
        """The last acknowledgement has arrived, or the message is dropped: free its identifier."""
        self.forget(delivery, delivery.packet_identifier)

    cdef int forget(self, Delivery delivery, object identifier) except -1:
        PyDict_DelItem(self.outgoing, identifier)
        self.outgoing_bytes -= delivery.octets()
        self.numbers.release(identifier)
        if self._changes is not None:
            self._note_finished(delivery)
        return 0

    cpdef hold(self, packet_identifier, held=None):
        """QoS 2: we own the message and wait for PUBREL. held: its content, a `Held`; None: it is not kept."""
        self.incoming[packet_identifier] = held
        if self._changes is not None:
            self._note_held(packet_identifier, held)
