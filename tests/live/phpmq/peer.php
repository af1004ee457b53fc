<?php
// A peer that speaks PHPMQ with the classes of php-mq/protocol. What it reads it prints, a line of JSON a message.
//
//   php peer.php LIBRARY serve           listens on loopback, prints its port first; answers each consume request
//   php peer.php LIBRARY connect PORT    sends one message of each type, then reads to the end
//
// LIBRARY is a checkout of php-mq/protocol.

use PHPMQ\Protocol\Constants\PacketLength;
use PHPMQ\Protocol\Interfaces\{IdentifiesMessage, IdentifiesQueue};
use PHPMQ\Protocol\Messages\{Acknowledgement, ConsumeRequest, DeadLetter, MessageClientToServer, MessageServerToClient, ReQueue};
use PHPMQ\Protocol\Types\{MessageHeader, MessageType, PacketHeader};

spl_autoload_register(function (string $class) use ($argv): void {
    require $argv[1] . '/src/' . str_replace('\\', '/', substr($class, strlen('PHPMQ\\Protocol\\'))) . '.php';
});

abstract class Name
{
    public function __construct(private string $name) {}
    public function toString(): string { return $this->name; }
    public function __toString(): string { return $this->name; }
    public function jsonSerialize(): string { return $this->name; }
}

final class Queue extends Name implements IdentifiesQueue
{
    public function equals(IdentifiesQueue $other): bool { return $other->toString() === $this->toString(); }
}

final class Id extends Name implements IdentifiesMessage
{
    public function equals(IdentifiesMessage $other): bool { return $other->toString() === $this->toString(); }
}

const CONTENT = "H\xC3\xA9llo\nP01\0 World";
const ID = 'd7e7f68761d34838494b233148b5486c';

function octets($socket, int $size): ?string
{
    $octets = '';
    while (strlen($octets) < $size) {
        $more = fread($socket, $size - strlen($octets));
        if ($more === false || $more === '') {
            return null;
        }
        $octets .= $more;
    }
    return $octets;
}

/** Type and packets of the next message, as the library's headers read them; null: the other side has ended. */
function next_message($socket): ?array
{
    $octets = octets($socket, PacketLength::MESSAGE_HEADER);
    if ($octets === null) {
        return null;
    }
    $header = MessageHeader::fromString($octets);
    $packets = [];
    for ($i = 0; $i < $header->getMessageType()->getPacketCount(); $i++) {
        $packet = PacketHeader::fromString(octets($socket, PacketLength::PACKET_HEADER));
        $size = $packet->getContentLength();
        $packets[] = [$packet->getPacketType(), bin2hex($size ? octets($socket, $size) : '')];
    }
    return ['version' => $header->getProtocolVersion(), 'type' => $header->getMessageType()->getType(), 'packets' => $packets];
}

function converse($socket, bool $answers): void
{
    while ($message = next_message($socket)) {
        echo json_encode($message), "\n";
        if ($answers && $message['type'] === MessageType::CONSUME_REQUEST) {
            $queue = new Queue(hex2bin($message['packets'][0][1]));
            for ($i = 0; $i < (int)hex2bin($message['packets'][1][1]); $i++) {
                fwrite($socket, new MessageServerToClient(new Id(ID), $queue, CONTENT . $i, 3300 + $i));
            }
        }
    }
}

if ($argv[2] === 'serve') {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    echo substr(strrchr(stream_socket_get_name($listener, false), ':'), 1), "\n";
    converse(stream_socket_accept($listener), true);
} else {
    $socket = stream_socket_client('tcp://127.0.0.1:' . $argv[3]);
    $queue = new Queue('Foo');
    fwrite($socket, new MessageClientToServer($queue, CONTENT, 3600));
    fwrite($socket, new MessageClientToServer($queue, ''));
    fwrite($socket, new ConsumeRequest($queue, 5));
    fwrite($socket, new Acknowledgement($queue, new Id(ID)));
    fwrite($socket, new ReQueue($queue, new Id(ID), -1));
    fwrite($socket, new DeadLetter($queue, new Id(ID)));
    stream_socket_shutdown($socket, STREAM_SHUT_WR);
    converse($socket, false);
}
