import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.acl.common.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.body.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * A real client with requests and replies, filter expressions, and questions to a consumer of ours. Arguments: name server, topic,
 * group of our consumer, its client id, and perhaps an access key and a secret key. Commands come by standard input, a line each;
 * for each there are lines of output, and then "done COMMAND". Ends when its standard input does.
 */
public class Extras {
    static synchronized void say(String line) { System.out.println(line); System.out.flush(); }
    static String text(byte[] body) { return new String(body, StandardCharsets.UTF_8); }
    static byte[] octets(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static DefaultMQPushConsumer consumer(String names, String group, RPCHook hook) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(group);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    public static void main(String[] args) throws Exception {
        Program.endsOnError();
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        String names = args[0], topic = args[1], group = args[2], client = args[3];
        RPCHook hook = args.length > 5 ? new AclClientRPCHook(new SessionCredentials(args[4], args[5])) : null;

        DefaultMQProducer producer = new DefaultMQProducer("ExtrasProducer", hook);
        producer.setNamesrvAddr(names);
        producer.setInstanceName("producer");
        producer.setVipChannelEnabled(false);
        producer.start();
        DefaultMQAdminExt admin = new DefaultMQAdminExt(hook, 20000);
        admin.setNamesrvAddr(names);
        admin.setInstanceName("admin");
        admin.setVipChannelEnabled(false);
        admin.start();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        say("ready");
        Scanner in = new Scanner(System.in, "UTF-8");
        while (in.hasNextLine()) {
            String line = in.nextLine(), command = line.split(" ", 2)[0], rest = line.contains(" ") ? line.split(" ", 2)[1] : "";
            try {
                if (command.equals("request")) {
                    Message reply = producer.request(new Message(topic, "request", octets(rest)), 30000);
                    say("reply " + text(reply.getBody()));
                } else if (command.equals("replier")) {
                    DefaultMQPushConsumer replier = consumer(names, "ExtrasReplier", hook);
                    replier.subscribe(topic, rest);
                    replier.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                        for (MessageExt m : messages) {
                            try {
                                producer.send(MessageUtil.createReplyMessage(m, octets("java " + text(m.getBody()))));
                            } catch (Exception error) {
                                say("failed " + error);
                            }
                        }
                        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    });
                    replier.start();
                    consumers.add(replier);
                } else if (command.equals("member")) {
                    DefaultMQPushConsumer member = consumer(names, rest, hook);
                    member.subscribe(topic, "shared");
                    member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                        for (MessageExt m : messages) say("shared " + text(m.getBody()));
                        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    });
                    member.start();
                    consumers.add(member);
                } else if (command.equals("sql")) {
                    DefaultMQPushConsumer sql = consumer(names, "ExtrasSql" + consumers.size(), hook);
                    sql.subscribe(topic, MessageSelector.bySql(rest));
                    sql.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                        for (MessageExt m : messages) say("sql " + text(m.getBody()));
                        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                    });
                    try {
                        sql.start();
                        consumers.add(sql);
                    } catch (MQClientException error) {
                        say("refused " + error.getResponseCode());
                        sql.shutdown();
                    }
                } else if (command.equals("running")) {
                    ConsumerRunningInfo info = admin.getConsumerRunningInfo(group, client, false);
                    for (Map.Entry<MessageQueue, ProcessQueueInfo> e : info.getMqTable().entrySet())
                        say("queue " + e.getKey().getTopic() + " " + e.getKey().getQueueId() + " " + e.getValue().getCommitOffset());
                    say("subscriptions " + info.getSubscriptionSet().size());
                    say("type " + info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUME_TYPE));
                    say("start " + info.getProperties().getProperty(ConsumerRunningInfo.PROP_CONSUMER_START_TIMESTAMP));
                } else if (command.equals("direct")) {
                    ConsumeMessageDirectlyResult result = admin.consumeMessageDirectly(group, client, topic, rest);
                    say("result " + result.getConsumeResult() + " " + result.isOrder());
                } else if (command.equals("reset")) {
                    say("offsets " + admin.resetOffsetByTimestamp(topic, group, 0, true).size());
                } else if (command.equals("status")) {
                    long total = 0;
                    for (Map<MessageQueue, Long> offsets : admin.getConsumeStatus(topic, group, client).values())
                        for (Long offset : offsets.values()) total += offset;
                    say("status " + total);
                }
            } catch (Throwable error) {
                say("failed " + command + " " + String.valueOf(error).split("\n")[0]);
            }
            say("done " + command);
        }
        Runtime.getRuntime().halt(0);           // an orderly end waits for long polls
    }
}
