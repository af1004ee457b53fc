import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.*;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A real client: as many commands as it can be made to send. Arguments: name server, broker, a word for names. */
public class Talk {
    static int step(String name, Callable<?> what) {
        try {
            Object result = what.call();
            System.out.println("ok " + name + " " + (result == null ? "" : String.valueOf(result).split("\n")[0]));
            return 1;
        } catch (Throwable error) {
            System.out.println("no " + name + " " + String.valueOf(error).split("\n")[0]);
            return 0;
        }
    }

    public static void main(String[] args) throws Exception {
        String names = args[0], broker = args[1], word = args[2], topic = "Topic_" + word;
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(names);
        admin.setInstanceName("admin" + word);
        admin.setVipChannelEnabled(false);
        admin.start();
        step("broker is known", () -> {         // it registers itself ten seconds after its start
            for (int i = 0; i < 300; i++) {
                org.apache.rocketmq.remoting.protocol.route.BrokerData data = admin.examineBrokerClusterInfo().getBrokerAddrTable().get("broker-a");
                if (data != null && !data.getBrokerAddrs().isEmpty()) return i;
                Thread.sleep(200);
            }
            throw new TimeoutException();
        });
        step("create topic", () -> { TopicConfig config = new TopicConfig(topic, 4, 4, 6); admin.createAndUpdateTopicConfig(broker, config); return null; });
        step("put kv", () -> { admin.createAndUpdateKvConfig("space", "key", "value"); return null; });
        step("get kv", () -> admin.getKVConfig("space", "key"));
        step("delete kv", () -> { admin.deleteKvConfig("space", "key"); return null; });
        step("cluster", () -> admin.examineBrokerClusterInfo().getClusterAddrTable());
        step("topics", () -> admin.fetchAllTopicList().getTopicList().size());
        step("route", () -> admin.examineTopicRouteInfo(topic).getQueueDatas());
        step("broker config", () -> admin.getBrokerConfig(broker).size());
        step("runtime", () -> admin.fetchBrokerRuntimeStats(broker).getTable().size());
        step("subscription group", () -> { org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig g = new org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig(); g.setGroupName("Push_" + word); admin.createAndUpdateSubscriptionGroupConfig(broker, g); return null; });

        DefaultMQProducer producer = new DefaultMQProducer("Producer_" + word);
        producer.setNamesrvAddr(names);
        producer.setInstanceName("producer" + word);
        producer.setVipChannelEnabled(false);
        producer.start();
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            Message message = new Message(topic, "Tag" + i % 2, "key" + i + " other", ("hello " + i).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("colour", i % 2 == 0 ? "red" : "bl\u00fc");
            step("send", () -> { SendResult r = producer.send(message); sent.add(r); return r.getMsgId(); });
        }
        step("send oneway", () -> { producer.sendOneway(new Message(topic, "TagO", "oneway".getBytes())); return null; });
        step("send delayed", () -> { Message m = new Message(topic, "TagD", "later".getBytes()); m.setDelayTimeLevel(1); return producer.send(m).getSendStatus(); });
        step("send compressed", () -> { byte[] body = new byte[6000]; Arrays.fill(body, (byte) 'z'); return producer.send(new Message(topic, "TagZ", body)).getSendStatus(); });
        step("send batch", () -> producer.send(Arrays.asList(new Message(topic, "TagB", "b1", "one".getBytes()), new Message(topic, "TagB", "b2", "two".getBytes()))).getMsgId());
        step("view", () -> admin.viewMessage(topic, sent.get(0).getOffsetMsgId()).getQueueOffset());
        step("max offset", () -> producer.maxOffset(sent.get(0).getMessageQueue()));
        step("min offset", () -> producer.minOffset(sent.get(0).getMessageQueue()));
        step("search offset", () -> producer.searchOffset(sent.get(0).getMessageQueue(), System.currentTimeMillis() - 60000));
        step("earliest", () -> producer.earliestMsgStoreTime(sent.get(0).getMessageQueue()));
        Thread.sleep(1500);
        step("query by key", () -> producer.queryMessage(topic, "key1", 8, 0, System.currentTimeMillis() + 1000).getMessageList().size());

        TransactionMQProducer half = new TransactionMQProducer("Half_" + word);
        half.setNamesrvAddr(names);
        half.setInstanceName("half" + word);
        half.setVipChannelEnabled(false);
        half.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message m, Object o) { return (LocalTransactionState) o; }
            public LocalTransactionState checkLocalTransaction(MessageExt m) { return LocalTransactionState.COMMIT_MESSAGE; }
        });
        half.start();
        for (LocalTransactionState state : LocalTransactionState.values())
            step("transaction " + state, () -> half.sendMessageInTransaction(new Message(topic, "TagT", state.name().getBytes()), state).getSendStatus());

        CountDownLatch got = new CountDownLatch(10);
        DefaultMQPushConsumer push = new DefaultMQPushConsumer("Push_" + word);
        push.setNamesrvAddr(names);
        push.setInstanceName("push" + word);
        push.setVipChannelEnabled(false);
        push.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        push.subscribe(topic, "*");
        Set<String> failed = ConcurrentHashMap.newKeySet();
        push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) got.countDown();
            return failed.add(messages.get(0).getMsgId()) && failed.size() == 1 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        push.start();
        step("push", () -> got.await(20, TimeUnit.SECONDS) + " " + got.getCount());
        step("consumers", () -> admin.examineConsumerConnectionInfo("Push_" + word).getConnectionSet().size());
        step("running info", () -> admin.getConsumerRunningInfo("Push_" + word, push.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId(), false).getMqTable().size());
        step("consume directly", () -> admin.consumeMessageDirectly("Push_" + word, push.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId(), topic, sent.get(1).getOffsetMsgId()).getConsumeResult());
        step("stats", () -> admin.examineConsumeStats("Push_" + word).getOffsetTable().size());
        step("topic stats", () -> admin.examineTopicStats(topic).getOffsetTable().size());
        step("producers", () -> admin.examineProducerConnectionInfo("Producer_" + word, topic).getConnectionSet().size());
        step("who consumes", () -> admin.queryTopicConsumeByWho(topic).getGroupList());
        step("reset offset", () -> admin.resetOffsetByTimestamp(topic, "Push_" + word, 0, true).size());

        CountDownLatch ordered = new CountDownLatch(4);
        DefaultMQPushConsumer orderly = new DefaultMQPushConsumer("Orderly_" + word);
        orderly.setNamesrvAddr(names);
        orderly.setInstanceName("orderly" + word);
        orderly.setVipChannelEnabled(false);
        orderly.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        orderly.subscribe(topic, "Tag0 || Tag1");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> { ordered.countDown(); return ConsumeOrderlyStatus.SUCCESS; });
        orderly.start();
        step("orderly", () -> ordered.await(20, TimeUnit.SECONDS));

        step("pop", () -> {
            org.apache.rocketmq.client.impl.MQClientAPIImpl api = admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
            org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader h = new org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader();
            h.setConsumerGroup("Pop_" + word); h.setTopic(topic); h.setQueueId(-1); h.setMaxMsgNums(4); h.setInvisibleTime(30000); h.setPollTime(1000); h.setBornTime(System.currentTimeMillis()); h.setInitMode(0); h.setExpType("TAG"); h.setExp("*"); h.setOrder(false);
            CompletableFuture<PopResult> done = new CompletableFuture<>();
            api.popMessageAsync("broker-a", broker, h, 5000, new PopCallback() { public void onSuccess(PopResult r) { done.complete(r); } public void onException(Throwable e) { done.completeExceptionally(e); } });
            PopResult r = done.get(8, TimeUnit.SECONDS);
            if (r.getMsgFoundList() == null || r.getMsgFoundList().isEmpty()) return r.getPopStatus();
            String ck = r.getMsgFoundList().get(0).getProperty(MessageConst.PROPERTY_POP_CK);
            org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader a = new org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader();
            String[] parts = org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil.split(ck);
            a.setConsumerGroup("Pop_" + word); a.setTopic(topic); a.setQueueId(org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil.getQueueId(parts)); a.setOffset(org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil.getQueueOffset(parts)); a.setExtraInfo(ck);
            CompletableFuture<AckResult> acked = new CompletableFuture<>();
            api.ackMessageAsync(broker, 5000, new AckCallback() { public void onSuccess(AckResult x) { acked.complete(x); } public void onException(Throwable e) { acked.completeExceptionally(e); } }, a);
            return r.getPopStatus() + " " + r.getMsgFoundList().size() + " " + acked.get(8, TimeUnit.SECONDS).getStatus();
        });
        Thread.sleep(3500);
        orderly.shutdown(); push.shutdown(); half.shutdown(); producer.shutdown();
        step("delete topic at names", () -> { admin.deleteTopicInNameServer(Collections.singleton(names), "wirefmt", topic); return null; });
        admin.shutdown();
        System.out.println("done");
        System.exit(0);
    }
}
