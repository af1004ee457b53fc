# What a channel does for every message: publish and confirm, deliver and acknowledge. Both roles.


# ------------------------------------------------------------------------------------------------ a client

cdef class ClientChannelFlows(ChannelFlows):
    """What a channel of a client does for every message. `ClientChannel` is derived from it.

    It calls these methods of that: `_window` after confirms, `_take` for an ack with `multiple`, `_not_waiting` for the error.
    """
    cdef readonly Tags _unconfirmed, _mandatory
    cdef uint64_t last_tag                  # of confirms
    cdef readonly uint64_t _last_delivery
    cdef public bint _full
    cdef readonly dict _leaving
    cdef public int64_t _recovering
    cdef BasicPublish method                # the last one, with the values it was made of
    cdef object exchange, routing_key
    cdef bint mandatory

    cdef int begin(self) except -1:
        self._unconfirmed = Tags()
        self._mandatory = Tags()
        self._leaving = {}
        return 0

    # ---- publishing

    def publish(self, exchange="", routing_key="", body=b"", properties=None, *, mandatory=False):
        """Publish a message: basic.publish.

        Returns its handle in confirm mode, otherwise None.

        Raises LocalProtocolError: the server has blocked the connection or stopped the flow (`WindowOpened` follows), too many
        publishes are unconfirmed (the same), too many bytes are queued, or the channel is not open.
        """
        cdef bint returns = mandatory
        if self.method is None or returns != self.mandatory or \
                not PyObject_RichCompareBool(routing_key, self.routing_key, Py_EQ) or \
                not PyObject_RichCompareBool(exchange, self.exchange, Py_EQ):
            self.make_method(exchange, routing_key, returns)
        return self.send_content(self.method, properties_of(properties), body_octets(body), returns)

    cdef int make_method(self, object exchange, object routing_key, bint mandatory) except -1:
        cdef PyObject* values[5]
        cdef object flag = mandatory
        values[:] = [<PyObject*>ZERO, <PyObject*>exchange, <PyObject*>routing_key, <PyObject*>flag, <PyObject*>NOT_SET]
        self.method = <BasicPublish>built(BasicPublish.__new__(BasicPublish), AMQP091_BASIC_PUBLISH, self.number, values)
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        return 0

    def _publish(self, BasicMessage message not None):
        """Publish a message with basic.publish: see `publish`."""
        cdef Publication publication = self.send_content(
            message.method_, message.properties, body_of(message), message.method.mandatory)
        if publication is not None:
            publication.message_ = message
        return publication

    def _check_publish(self):
        """May a message be published now?"""
        if not self.open_ or not self.flows._up:
            self._check("basic.publish")
        if not self.active or self.flows.blocked:
            self._full = True
            raise LocalProtocolError("the server takes no content now: wait for WindowOpened (1.5.2.3, RabbitMQ)")
        if self.confirming and self._unconfirmed.count >= self.flows.most_unconfirmed:
            self._full = True
            raise LocalProtocolError("too many publishes wait for their confirms: wait for WindowOpened")

    cdef Publication send_content(self, Frame method, BasicProperties properties, bytes body, bint mandatory):
        cdef Flows flows = self.flows
        cdef Publication publication
        if not self.open_ or not flows._up or not self.active or flows.blocked or \
                (self.confirming and self._unconfirmed.count >= flows.most_unconfirmed):
            self._check_publish()
        if not self.confirming:
            if self.mode_ == "tx":
                self.flush()                # the acks before it are of the transaction
            flows.put_content(method.frame, method.size, self.number, properties, body)
            return None
        if flows.session_ is None:
            raise LocalProtocolError("the connection has no session")
        flows.put_content(method.frame, method.size, self.number, properties, body)
        publication = flows.session_.remember(method, properties, body, flows.frame_max, self.number, self.last_tag + 1)
        self._unconfirmed.put(publication.tag, publication)
        if mandatory:
            self._mandatory.put(publication.tag, publication)
        self.last_tag += 1
        return publication

    def _send_again(self, Publication publication not None, Method method not None):
        """Publish a message of another channel once more, with this method."""
        cdef Frame frame = method
        cdef BasicMessage message = content_of(method, publication.properties, publication.body, self.flows.frame_max)
        self.flows.put_content(frame.frame, frame.size, self.number, publication.properties, publication.body)
        self.last_tag += 1
        publication.channel = self.number
        publication.tag = self.last_tag
        publication.set_message(message)
        publication.returned_ = None
        self._unconfirmed.put(publication.tag, publication)
        if frame.frame[frame.value[PUBLISH_BITS]] & MANDATORY:
            self._mandatory.put(publication.tag, publication)

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        """A confirm."""
        cdef SessionFlows session = self.flows.session_
        cdef uint64_t tag = tag_of(message)
        cdef Publication publication
        cdef list handles
        cdef Py_ssize_t i
        if bits_of(message) & 1:
            handles = self._unconfirmed.settle(tag if tag else self.last_tag)      # 0: all (1.8.3.13)
        else:
            i = self._unconfirmed.find(tag)
            handles = [] if i < 0 else [self._unconfirmed.take(i)]
        if not handles:
            self.connection.strays += 1
            return 0
        for publication in handles:
            session.drop(publication)
            if self._mandatory.count:
                i = self._mandatory.find(publication.tag)
                if i >= 0:
                    self._mandatory.take(i)
        event = bare_event(self.flows.confirmed)
        set_slot(event, CHANNEL, self.number)
        set_slot(event, HANDLES, handles)
        set_slot(event, ACCEPTED, kind == BY_ACK)
        set_slot(event, MESSAGE, message)
        events.append(event)
        if self._full:
            self._window(events)
        return 0

    # ---- consuming

    cdef bint take_content(self, BasicMessage message, list events) except -1:
        cdef Frame method = message.method_
        cdef PyObject* found
        cdef const uint8_t* p
        cdef uint64_t tag
        if method.method_ != AMQP091_BASIC_DELIVER:
            return False
        tag = load_u64(method.frame + method.value[DELIVER_TAG])
        p = method.frame + method.value[DELIVER_CONSUMER]
        name = text_or_octets(p + 1, p[0])
        found = PyDict_GetItemWithError(self.consumers, name)
        if found == NULL:
            found = PyDict_GetItemWithError(self._leaving, name)
        if found == NULL or type(<object>found) is not Consumer:
            raise RemoteProtocolError(
                f"a delivery for consumer-tag {name!r}, which the channel does not have (1.8.3.9)",
                reply=AMQP091_REPLY_COMMAND_INVALID)
        if not (<Consumer><object>found).no_ack:        # the tags of direct replies repeat (RabbitMQ)
            self.check_tag(tag)
            self._last_delivery = tag
            if not self._recovering:
                self._tags.put(tag, None)
        events.append(message)
        return True

    cdef int check_tag(self, uint64_t tag) except -1:
        if tag <= self._last_delivery:
            raise RemoteProtocolError(
                f"delivery-tag {tag} after {self._last_delivery}: tags rise (1.8.3.9)", reply=AMQP091_REPLY_COMMAND_INVALID)
        return 0

    def _take_tag(self, tag, no_ack):
        """A basic.get-ok has arrived with this delivery-tag."""
        cdef uint64_t number = tag
        self.check_tag(number)
        self._last_delivery = number
        if not no_ack:
            self._tags.put(number, None)

    def ack(self, delivery_tag, multiple=False):
        """Acknowledge a delivery, or with `multiple` all up to it (tag 0: all). Acks of one turn are written together.

        Returns events of bytes that were waiting. Raises LocalProtocolError if the delivery does not wait for it.
        """
        cdef Flows flows = self.flows
        cdef uint64_t tag = 0
        cdef Py_ssize_t i
        if not flows._up:
            self._check("basic.ack")
        if not multiple:
            i = self._tags.find(tag) if is_tag(delivery_tag, &tag) else -1
            if i < 0:
                self._not_waiting(delivery_tag)
            self._tags.take(i)
            self.settle(tag)
        else:
            self._check("basic.ack")
            if not self._take(delivery_tag):
                return []
            put_ack(flows._outbox, self.number, delivery_tag, True)
        return [] if flows._reading else flows._go_on()


# ------------------------------------------------------------------------------------------------ a server

cdef class ServerChannelFlows(ChannelFlows):
    """What a channel of a server does for every message. `ServerChannel` is derived from it. Its `_in_tx` takes what a
    transaction settles.

    Attributes:
        prefetch: basic.qos for consumers started later; 0: no limit.
        shared_prefetch: basic.qos with global: deliveries of all consumers together; 0: no limit.
    """
    cdef public int64_t prefetch, shared_prefetch
    cdef readonly Tags _deliveries
    cdef readonly uint64_t _last_delivery
    cdef int64_t shared_used                # of `shared_prefetch`
    cdef public int64_t _transacted
    cdef public bint _unheard
    cdef uint64_t published                 # in confirm mode

    cdef int begin(self) except -1:
        self._deliveries = Tags()
        return 0

    # ---- publishes

    cdef bint take_content(self, BasicMessage message, list events) except -1:
        cdef Frame method = message.method_
        if method.method_ != AMQP091_BASIC_PUBLISH:
            raise RemoteProtocolError("only a server sends this method (2.2.4)", reply=AMQP091_REPLY_COMMAND_INVALID)
        if method.frame[method.value[PUBLISH_BITS]] & IMMEDIATE:
            raise RemoteProtocolError("immediate=true", reply=AMQP091_REPLY_NOT_IMPLEMENTED)
        if message.size > <uint64_t>self.flows.most_message:
            raise RemoteProtocolError(
                f"message size {message.size} is larger than configured max size {self.flows.most_message}",
                reply=AMQP091_REPLY_PRECONDITION_FAILED)
        if self.confirming:
            self._tags.put(self.published + 1, message)
            self.published += 1
            message.number = self.published
            self.flows._undecided += 1
        self._unheard = True
        events.append(message)
        return True

    def _take_confirm(self, event):
        """Settle a message that waits for its confirm; its number. Acks noted before are written first: their `multiple` must
        not include it."""
        cdef Py_ssize_t i
        if type(event) is not BasicMessage:
            raise LocalProtocolError("this message does not wait for a confirm")
        i = self.place_of(<BasicMessage>event)
        self.flush()
        self._tags.take(i)
        self.flows._undecided -= 1
        return (<BasicMessage>event).number

    # ---- deliveries

    def credit(self, consumer_tag):
        """How many deliveries a consumer may have now."""
        cdef PyObject* found = PyDict_GetItemWithError(self.consumers, consumer_tag)
        if found == NULL or type(<object>found) is not Consumer or not self.open_:
            return 0
        return self.credit_of(<Consumer><object>found)

    cdef int64_t credit_of(self, Consumer consumer) noexcept:
        cdef int64_t capacity = self.flows.most_unacknowledged
        if not self.active:
            return 0
        if consumer.no_ack:     # its deliveries do not count, but wait while the window of all consumers is closed (RabbitMQ)
            return 0 if self.shared_prefetch and self.shared_used >= self.shared_prefetch else capacity
        capacity -= self._deliveries.count + self._transacted
        if consumer.prefetch:
            capacity = min(capacity, consumer.prefetch - consumer.unacknowledged)
        if self.shared_prefetch:
            capacity = min(capacity, self.shared_prefetch - self.shared_used)
        return max(capacity, 0)

    def deliver(self, consumer_tag, exchange, routing_key, body=b"", properties=None, *, redelivered=False, context=None):
        """Deliver a message to a consumer: basic.deliver.

        Returns its handle, which `Settled` names; None if the consumer does not acknowledge.

        Raises LocalProtocolError: there is no such consumer, its window is closed (`credit`), or too many bytes are queued.
        """
        cdef Consumer consumer = self.ready_consumer(consumer_tag, exchange, routing_key, redelivered)
        return self.send_to(consumer, properties_of(properties), body_octets(body), context)

    def deliver_all(self, consumer_tag, exchange, routing_key, list bodies not None, list properties not None, *,
                    redelivered=False, list contexts=None, pending_bytes=0):
        """Deliver messages, each with its body, properties and context: see `deliver`.

        It stops before a message for which the window is closed, and when so many bytes are queued for the peer; 0: it does not
        stop for that.

        Returns how many were delivered. Raises LocalProtocolError as `deliver` does, if not even the first could be.
        """
        cdef Consumer consumer = self.ready_consumer(consumer_tag, exchange, routing_key, redelivered)
        cdef int64_t most = pending_bytes
        cdef Outbox outbox = self.flows._outbox
        cdef Py_ssize_t at = 0
        if len(properties) != len(bodies) or (contexts is not None and len(contexts) != len(bodies)):
            raise LocalProtocolError("there are not as many properties or contexts as bodies")
        while at < PyList_GET_SIZE(bodies):
            if at and (not self.credit_of(consumer) or (most and outbox.position - outbox.taken >= most)):
                break
            try:
                self.send_to(consumer, properties_of(properties[at]), body_octets(bodies[at]),
                             None if contexts is None else contexts[at])
            except LocalProtocolError:
                if at:
                    break       # the next call says why
                raise
            at += 1
        return at

    cdef Consumer ready_consumer(self, object consumer_tag, object exchange, object routing_key, bint redelivered):
        """The consumer, if it may have a delivery now. Its method is made, except for the delivery-tag."""
        cdef Consumer consumer
        cdef PyObject* found
        if not self.open_ or not self.flows._up:
            self._check("basic.deliver")
        found = PyDict_GetItemWithError(self.consumers, consumer_tag)
        if found == NULL or type(<object>found) is not Consumer:
            raise LocalProtocolError(f"the channel has no consumer {consumer_tag!r}")
        consumer = <Consumer><object>found
        if not self.credit_of(consumer):
            raise LocalProtocolError(f"the window of consumer {consumer_tag!r} is closed")
        if consumer.head is None or not PyObject_RichCompareBool(routing_key, consumer.routing_key, Py_EQ) or \
                not PyObject_RichCompareBool(exchange, consumer.exchange, Py_EQ):
            self.make_head(consumer, exchange, routing_key)
        PyBytes_AS_STRING(consumer.head)[consumer.head_redelivered] = redelivered
        return consumer

    cdef Delivery send_to(self, Consumer consumer, BasicProperties properties, bytes body, object context):
        cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(consumer.head)
        store_u64(p + consumer.head_tag, self._last_delivery + 1)
        self.flows.put_content(p, <size_t>PyBytes_GET_SIZE(consumer.head), self.number, properties, body)
        return self.delivered(None if consumer.no_ack else consumer, context, consumer.no_ack)

    cdef int make_head(self, Consumer consumer, object exchange, object routing_key) except -1:
        cdef PyObject* values[5]
        cdef Method method = BasicDeliver.__new__(BasicDeliver)
        values[:] = [<PyObject*>consumer.tag, <PyObject*>ZERO, <PyObject*>NOT_SET, <PyObject*>exchange,
                     <PyObject*>routing_key]
        built(method, AMQP091_BASIC_DELIVER, self.number, values)
        consumer.head = method.block        # of nobody else: the method goes
        consumer.head_tag = method.value[DELIVER_TAG]
        consumer.head_redelivered = method.value[DELIVER_REDELIVERED]
        consumer.exchange = exchange
        consumer.routing_key = routing_key
        return 0

    cdef Delivery delivered(self, Consumer consumer, object context, bint no_ack):
        """A message has been sent, with the next number."""
        cdef Delivery delivery
        self._last_delivery += 1
        if no_ack:
            return None
        delivery = Delivery.__new__(Delivery)
        self.flows.number += 1
        delivery.number = self.flows.number
        delivery.channel = self.number
        delivery.tag = self._last_delivery
        delivery.consumer = consumer
        delivery.context = context
        self._deliveries.put(delivery.tag, delivery)
        if consumer is not None:
            consumer.unacknowledged += 1
            self.shared_used += 1
        return delivery

    def _delivered(self, context, no_ack):
        """A basic.get-ok has been sent: its handle; None if it is not acknowledged."""
        return self.delivered(None, context, no_ack)

    # ---- settlements

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        cdef uint64_t tag = tag_of(message)
        cdef uint8_t bits = bits_of(message)
        cdef list deliveries
        cdef Py_ssize_t i = -1
        cdef str outcome = "ack"
        if kind == BY_NACK:
            outcome = "requeue" if bits & 2 else "discard"
        elif kind == BY_REJECT:
            outcome = "requeue" if bits & 1 else "discard"
        if tag or kind == BY_REJECT or not bits & 1:
            i = self._deliveries.find(tag)
            if i < 0:
                raise RemoteProtocolError(f"unknown delivery tag {tag}", reply=AMQP091_REPLY_PRECONDITION_FAILED)
        if kind != BY_REJECT and bits & 1:
            deliveries = self._deliveries.settle(tag if tag else self._last_delivery)   # 0: all (1.8.3.13)
        else:
            deliveries = [self._deliveries.take(i)]
        if not deliveries:
            return 0
        if self.mode_ == "tx":
            self._in_tx(deliveries, outcome, message)
            return 0
        self.release(deliveries)
        event = bare_event(self.flows.settled)
        set_slot(event, CHANNEL, self.number)
        set_slot(event, DELIVERIES, deliveries)
        set_slot(event, OUTCOME, outcome)
        set_slot(event, MESSAGE, message)
        events.append(event)
        return 0

    cdef int release(self, list deliveries) except -1:
        cdef Delivery delivery
        for delivery in deliveries:
            if delivery.consumer is not None:
                delivery.consumer.unacknowledged -= 1
                self.shared_used -= 1
        return 0

    def _release(self, list deliveries not None):
        """Deliveries are finished: they count no more for the windows."""
        self.release(deliveries)

    def _restore(self, list deliveries not None):
        """Deliveries of a transaction that is undone wait again."""
        cdef Delivery delivery
        cdef list waiting = self._deliveries.values()
        waiting += deliveries
        waiting.sort(key=tag_of_delivery)
        self._deliveries.clear()
        for delivery in waiting:
            self._deliveries.put(delivery.tag, delivery)


def tag_of_delivery(Delivery delivery not None):
    """The order of deliveries."""
    return delivery.tag
