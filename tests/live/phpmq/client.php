<?php
// A program with php-mq/client.
//
//   php client.php CLIENT PORT send QUEUE                  publishes each line of its input, in hex
//   php client.php CLIENT PORT consume QUEUE COUNT TOTAL   prints TOTAL contents, in hex; the first one is pushed back before
//
// CLIENT is a checkout of php-mq/client with its packages.

use PHPMQ\Client\Client;
use PHPMQ\Client\Sockets\ClientSocket;
use PHPMQ\Client\Sockets\Types\NetworkSocket;
use PHPMQ\Client\Types\QueueName;
use PHPMQ\Protocol\Messages\MessageServerToClient;

error_reporting(E_ALL & ~E_DEPRECATED);
require $argv[1] . '/vendor/autoload.php';

$client = new Client(new ClientSocket(new NetworkSocket('127.0.0.1', (int)$argv[2])));
$queue = new QueueName($argv[4]);

if ($argv[3] === 'send') {
    foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $content) {
        $client->sendMessage($queue, (string)hex2bin($content));
    }
} else {
    $seen = 0;
    $client->requestMessages($queue, (int)$argv[5]);
    $client->registerMessageHandlers(function (MessageServerToClient $message) use ($client, $argv, &$seen): void {
        if ($seen++ === 0) {
            $client->pushBackMessage($message);
            return;
        }
        echo bin2hex($message->getContent()), "\n";
        $client->acknowledgeMessage($message->getQueueName(), $message->getMessageId());
        if ($seen > (int)$argv[6]) {
            $client->stopHandlingMessages();
        }
    });
    $client->handleMessages();
}
$client->disconnect();
