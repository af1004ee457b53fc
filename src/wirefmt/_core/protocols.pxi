# The protocols a capture may hold, a row each; capture.pxi knows them by these rows alone. Where they share a port and
# octets could be of several, the earlier row is asked first.
#
# Uses: protocol, mqtt_capture, amqp091_capture, amqp10_capture, rocketmq_capture, nsq_capture, phpmq_capture. Included by
# _core.pyx.

cdef enum:
    PROTOCOLS = 6

cdef Protocol[PROTOCOLS] protocols
protocols[0] = mqtt_protocol()
protocols[1] = amqp091_protocol()
protocols[2] = amqp10_protocol()
protocols[3] = rocketmq_protocol()
protocols[4] = nsq_protocol()
protocols[5] = phpmq_protocol()
