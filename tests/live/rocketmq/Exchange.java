import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * A real client that sends and consumes, and writes a line for each message. Arguments: name server, topic, group, and perhaps
 * an access key and a secret key. Ends when its standard input does.
 */
public class Exchange {
    static synchronized void say(String line) { System.out.println(line); System.out.flush(); }

    static Message message(String topic, String body) {
        Message message = new Message(topic, "java", "key", body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("colour", "bl\u00fc");
        return message;
    }

    static void send(MQProducer producer, String name, Callable<SendResult> what) {
        try {
            SendResult result = what.call();
            say("sent " + name + " " + (result == null ? "" : result.getSendStatus()));
        } catch (Throwable error) {
            say("failed " + name + " " + String.valueOf(error).split("\n")[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        Program.endsOnError();
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        String names = args[0], topic = args[1], group = args[2];
        RPCHook hook = args.length > 4 ? new AclClientRPCHook(new SessionCredentials(args[3], args[4])) : null;

        TransactionMQProducer producer = new TransactionMQProducer("P" + group, hook);
        producer.setNamesrvAddr(names);
        producer.setInstanceName("producer" + group);
        producer.setHeartbeatBrokerInterval(1000);   // a broker asks a producer it has heard of
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object decision) { return (LocalTransactionState) decision; }
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                say("checked " + body);
                return body.endsWith("rolled") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        for (int i = 0; i < 5; i++) { String body = "java " + i; send(producer, body, () -> producer.send(message(topic, body))); }
        send(producer, "java big", () -> producer.send(message(topic, "java " + "x".repeat(6000))));
        send(producer, "java oneway", () -> { producer.sendOneway(message(topic, "java oneway")); return null; });
        send(producer, "java batch", () -> producer.send(Arrays.asList(message(topic, "java b0"), message(topic, "java b1"))));
        send(producer, "java chosen", () -> producer.send(message(topic, "java chosen"), (queues, m, n) -> queues.get((Integer) n), 2));
        send(producer, "java later", () -> { Message m = message(topic, "java later"); m.setDelayTimeLevel(1); return producer.send(m); });
        send(producer, "java committed", () -> producer.sendMessageInTransaction(message(topic, "java committed"), LocalTransactionState.COMMIT_MESSAGE));
        send(producer, "java rolled", () -> producer.sendMessageInTransaction(message(topic, "java rolled"), LocalTransactionState.ROLLBACK_MESSAGE));
        send(producer, "java unknown", () -> producer.sendMessageInTransaction(message(topic, "java unknown"), LocalTransactionState.UNKNOW));

        DefaultMQPushConsumer push = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        push.setNamesrvAddr(names);
        push.setInstanceName("push" + group);
        push.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.setPollNameServerInterval(1000);        // its retry topic is there once the broker has heard of it
        push.subscribe(topic, "*");
        push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                String body = new String(m.getBody(), StandardCharsets.UTF_8);
                say("push " + m.getReconsumeTimes() + " " + m.getTags() + " " + body);
                if (body.endsWith("retry") && m.getReconsumeTimes() == 0) return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        push.start();

        DefaultMQPushConsumer orderly = new DefaultMQPushConsumer("O" + group, hook, new AllocateMessageQueueAveragely());
        orderly.setNamesrvAddr(names);
        orderly.setInstanceName("orderly" + group);
        orderly.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        orderly.setPollNameServerInterval(1000);
        orderly.subscribe(topic, "java || ours");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt m : messages) say("orderly " + m.getQueueId() + " " + m.getQueueOffset());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        orderly.start();

        DefaultLitePullConsumer pull = new DefaultLitePullConsumer("L" + group, hook);
        pull.setNamesrvAddr(names);
        pull.setInstanceName("pull" + group);
        // seek() interrupts the pull of its queue. A pull that is interrupted before it is sent closes the connection, and then
        // the next seek() fails, which asks for offsets. So nothing is pulled until all queues have their offsets.
        Collection<MessageQueue> all = producer.fetchPublishMessageQueues(topic);
        pull.assign(all);
        pull.pause(all);
        pull.start();
        Collection<MessageQueue> queues = pull.fetchMessageQueues(topic);
        for (MessageQueue queue : queues) pull.seek(queue, 0);
        pull.resume(queues);
        Thread puller = new Thread(() -> {
            while (pull.isRunning())
                for (MessageExt m : pull.poll(200)) say("pull " + m.getReconsumeTimes() + " " + m.getTags() + " " + new String(m.getBody(), StandardCharsets.UTF_8));
        });
        puller.setDaemon(true);
        puller.start();
        say("ready");
        while (System.in.read() >= 0) { }
        puller.interrupt(); pull.shutdown(); orderly.shutdown(); push.shutdown(); producer.shutdown();
        say("done");
        System.exit(0);
    }
}
