"""Bytes to MQTT packets and back, whole and as they come from a socket.

python examples/codec.py
"""

from wirefmt import mqtt
from wirefmt.errors import DecodeError

packet = mqtt.Publish(
    topic_name="plant/line-1/temperature",
    payload=b"21.5",
    qos=1,
    packet_identifier=7,
    properties=(("message_expiry_interval", 60), ("user_property", ("site", "north"))),
    version=5,
)
octets = packet.encode()
print(len(octets), "bytes:", octets.hex(" "))
assert mqtt.decode(octets, version=5) == packet

# a stream: feed the bytes that arrive, take the complete packets
decoder = mqtt.Decoder(version=5)
stream = mqtt.Pingreq().encode() + octets + mqtt.Disconnect(version=5).encode()
for i in range(0, len(stream), 20):
    for message in decoder.feed(stream[i : i + 20]):
        match message:
            case mqtt.Publish(topic_name=topic, payload=payload):
                print(f"{topic} = {bytes(payload).decode()}")
            case other:
                print(type(other).__name__)
decoder.close()

# an error says what is wrong, where, and what to answer
try:
    mqtt.decode(bytes.fromhex("36 02 00 00"), version=5)
except DecodeError as fault:
    print(fault)
    print(f"field {fault.path!r} at offset {fault.offset}, reply with reason code 0x{fault.reply:02X}")
