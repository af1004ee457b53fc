import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** RabbitMQ's client for Java at the port that the argument names. It prints a line for each thing it sees. */
public class Rabbit {
    static <T> T next(BlockingQueue<T> queue) throws Exception {
        T found = queue.poll(60, TimeUnit.SECONDS);
        if (found == null) throw new IllegalStateException("nothing has come");
        return found;
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static byte[] bytes(String body) {
        return body.getBytes(StandardCharsets.UTF_8);
    }

    static int code(Throwable error) {
        while (!(error instanceof ShutdownSignalException)) error = error.getCause();
        Object reason = ((ShutdownSignalException) error).getReason();
        return reason instanceof AMQP.Channel.Close close
            ? close.getReplyCode() : ((AMQP.Connection.Close) reason).getReplyCode();
    }

    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);  // threads of the client go on
        }
        System.exit(0);
    }

    static void run(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(arguments[0]));
        factory.setRequestedHeartbeat(1);
        factory.setAutomaticRecoveryEnabled(false);
        Connection connection = factory.newConnection("java");
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        channel.exchangeDeclare("e", "topic", false, true, Map.of());
        channel.exchangeDeclare("f", "fanout");
        channel.exchangeBind("f", "e", "#");
        String queue = channel.queueDeclare("", false, true, false, null).getQueue();
        channel.queueBind(queue, "f", "");

        AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
            .headers(Map.of("n", 1, "list", List.of("a", 2L), "map", Map.of("k", true)))
            .deliveryMode(2).messageId("m").build();
        channel.basicPublish("e", "a.b", properties, new byte[300_000]);
        channel.waitForConfirmsOrDie(60_000);
        GetResponse got = channel.basicGet(queue, false);
        System.out.println("got " + got.getBody().length + " " + got.getProps().getHeaders().get("n") + " "
            + got.getProps().getHeaders().get("list") + " " + got.getEnvelope().getRoutingKey());
        channel.basicNack(got.getEnvelope().getDeliveryTag(), false, true);
        got = channel.basicGet(queue, false);
        System.out.println("redelivered " + got.getEnvelope().isRedeliver());
        channel.basicReject(got.getEnvelope().getDeliveryTag(), false);
        System.out.println("empty " + (channel.basicGet(queue, true) == null));

        BlockingQueue<Integer> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener(message -> returned.add(message.getReplyCode()));
        channel.basicPublish("", "nowhere", true, null, bytes("lost"));
        channel.waitForConfirmsOrDie(60_000);
        System.out.println("returned " + next(returned));

        AtomicLong confirmed = new AtomicLong();
        channel.addConfirmListener(
            (tag, multiple) -> confirmed.accumulateAndGet(tag, Math::max), (tag, multiple) -> confirmed.set(-1));
        for (int k = 0; k < 1000; k++) channel.basicPublish("e", "k", null, bytes("" + k));
        channel.waitForConfirmsOrDie(60_000);
        System.out.println("confirmed " + (confirmed.get() == channel.getNextPublishSeqNo() - 1));

        channel.basicQos(7);
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
        DeliverCallback deliver = (tag, delivery) -> deliveries.add(delivery);
        CancelCallback cancel = cancelled::add;
        String consumer = channel.basicConsume(queue, false, deliver, cancel);
        boolean ordered = true;
        for (int k = 0; k < 1000; k++) {
            Delivery delivery = next(deliveries);
            ordered &= text(delivery.getBody()).equals("" + k);
            if (k % 7 == 6 || k == 999) channel.basicAck(delivery.getEnvelope().getDeliveryTag(), true);
        }
        System.out.println("ordered " + ordered);
        channel.basicPublish("e", "k", null, bytes("again"));
        channel.basicNack(next(deliveries).getEnvelope().getDeliveryTag(), true, true);
        Delivery again = next(deliveries);
        System.out.println(text(again.getBody()) + " " + again.getEnvelope().isRedeliver());
        channel.basicRecover(true);
        System.out.println("recovered " + text(next(deliveries).getBody()));
        channel.basicCancel(consumer);
        channel.queuePurge(queue);

        channel.queueDeclare("gone", false, false, false, Map.of("x-max-length", 3));
        channel.basicConsume("gone", true, deliver, cancel);
        connection.createChannel().queueDelete("gone");
        next(cancelled);
        System.out.println("cancelled");

        Channel other = connection.createChannel();
        try {
            other.queueDeclarePassive("absent");
        } catch (IOException error) {
            System.out.println("channel error " + code(error));
        }
        try {
            other.basicGet(queue, true);
        } catch (AlreadyClosedException error) {
            System.out.println("channel closed");
        }
        Channel transactional = connection.createChannel();
        transactional.txSelect();
        transactional.basicPublish("", queue, null, bytes("1"));
        transactional.txRollback();
        transactional.basicPublish("", queue, null, bytes("2"));
        transactional.txCommit();
        System.out.println("transaction " + text(transactional.basicGet(queue, true).getBody()));
        System.out.println("nothing " + (transactional.basicGet(queue, true) == null));
        for (int k = 0; k < 50; k++) {
            Channel short_ = connection.createChannel();
            short_.queueDeclarePassive(queue);
            short_.close();
        }
        TimeUnit.MILLISECONDS.sleep(2500);  // heartbeats keep the connection
        System.out.println("count " + channel.messageCount(queue));
        connection.close();

        factory.setPassword("wrong");
        try {
            factory.newConnection();
        } catch (com.rabbitmq.client.AuthenticationFailureException error) {
            System.out.println("refused");
        }
        System.out.println("done");
    }
}
