import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Qpid JMS, an AMQP 1.0 client, at the port that the argument names. It prints a line for each thing it sees. */
public class Jms {
    static <T extends Message> T next(MessageConsumer consumer) throws JMSException {
        @SuppressWarnings("unchecked")
        T found = (T) consumer.receive(60_000);
        if (found == null) throw new IllegalStateException("nothing has come");
        return found;
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
        String url = "amqp://127.0.0.1:" + arguments[0] + "?amqp.idleTimeout=2000&jms.prefetchPolicy.all=10";
        Connection connection = new JmsConnectionFactory("user", "secret", url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("/queues/jms");
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);

        TextMessage text = session.createTextMessage("héllo");
        text.setStringProperty("colour", "red");
        text.setIntProperty("n", 7);
        text.setJMSCorrelationID("c");
        producer.send(text);
        TextMessage got = next(consumer);
        System.out.println(got.getText() + " " + got.getStringProperty("colour") + " " + got.getIntProperty("n") + " "
            + got.getJMSCorrelationID() + " " + got.getJMSRedelivered());

        BytesMessage large = session.createBytesMessage();
        large.writeBytes(new byte[500_000]);
        producer.send(large);
        BytesMessage back = next(consumer);
        System.out.println("bytes " + back.getBodyLength());
        MapMessage map = session.createMapMessage();
        map.setInt("a", 1);
        producer.send(map);
        MapMessage mapped = next(consumer);
        System.out.println("map " + mapped.getInt("a"));

        CountDownLatch sent = new CountDownLatch(200);
        for (int k = 0; k < 200; k++) {
            producer.send(session.createTextMessage("" + k), new jakarta.jms.CompletionListener() {
                public void onCompletion(Message message) { sent.countDown(); }
                public void onException(Message message, Exception error) { error.printStackTrace(); }
            });
        }
        System.out.println("sent " + sent.await(60, TimeUnit.SECONDS));
        boolean ordered = true;
        for (int k = 0; k < 200; k++) ordered &= Jms.<TextMessage>next(consumer).getText().equals("" + k);
        System.out.println("ordered " + ordered);
        System.out.println("empty " + (consumer.receiveNoWait() == null));
        consumer.close();

        Session client = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer again = client.createConsumer(queue);
        producer.send(session.createTextMessage("recover"));
        next(again);
        client.recover();
        TextMessage recovered = next(again);
        System.out.println(recovered.getText() + " " + recovered.getJMSRedelivered());
        recovered.acknowledge();
        client.close();

        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer inside = transacted.createProducer(queue);
        inside.send(transacted.createTextMessage("rolled back"));
        transacted.rollback();
        inside.send(transacted.createTextMessage("committed"));
        transacted.commit();
        MessageConsumer taking = transacted.createConsumer(queue);
        System.out.println("transaction " + Jms.<TextMessage>next(taking).getText());
        transacted.rollback();
        System.out.println("transaction again " + Jms.<TextMessage>next(taking).getText());
        transacted.commit();
        System.out.println("empty " + (taking.receiveNoWait() == null));
        transacted.close();

        Queue temporary = session.createTemporaryQueue();
        MessageProducer anonymous = session.createProducer(null);
        MessageConsumer replies = session.createConsumer(temporary);
        anonymous.send(temporary, session.createTextMessage("reply"));
        System.out.println("temporary " + Jms.<TextMessage>next(replies).getText());
        try {
            session.createProducer(session.createQueue("/nowhere/x"));
        } catch (JMSException error) {
            System.out.println("refused " + error.getMessage().contains("not-found"));
        }
        TimeUnit.MILLISECONDS.sleep(3000);  // longer than the idle time-out
        producer.send(session.createTextMessage("alive"));
        connection.close();
        try {
            new JmsConnectionFactory("user", "wrong", url).createConnection().start();
        } catch (JMSException error) {
            System.out.println("login refused");
        }
        System.out.println("done");
    }
}
