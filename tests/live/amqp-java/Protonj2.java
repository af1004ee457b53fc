import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.ErrorCondition;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.Session;
import org.apache.qpid.protonj2.client.StreamDelivery;
import org.apache.qpid.protonj2.client.StreamReceiver;
import org.apache.qpid.protonj2.client.StreamSender;
import org.apache.qpid.protonj2.client.StreamSenderMessage;
import org.apache.qpid.protonj2.client.Tracker;
import org.apache.qpid.protonj2.client.exceptions.ClientConnectionRemotelyClosedException;
import org.apache.qpid.protonj2.client.exceptions.ClientException;
import org.apache.qpid.protonj2.client.exceptions.ClientLinkRemotelyClosedException;
import org.apache.qpid.protonj2.client.exceptions.ClientResourceRemotelyClosedException;
import org.apache.qpid.protonj2.client.exceptions.ClientSessionRemotelyClosedException;

/** protonj2's client, at a broker (the port of the first argument) and at a host that does what messages tell it (the second). */
public class Protonj2 {
    static final long PATIENCE = 60;

    static Delivery next(Receiver receiver) throws Exception {
        Delivery found = receiver.receive(PATIENCE, TimeUnit.SECONDS);
        if (found == null) throw new IllegalStateException("nothing has come");
        return found;
    }

    static String text(Delivery delivery) throws Exception {
        return (String) delivery.message().body();
    }

    public static void main(String[] arguments) {
        try {
            broker(Integer.parseInt(arguments[0]));
            host(Integer.parseInt(arguments[1]));
            System.out.println("done");
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);  // threads of the client go on
        }
        System.exit(0);
    }

    static ConnectionOptions options(String password) {
        ConnectionOptions options = new ConnectionOptions().user("user").password(password);
        options.reconnectEnabled(false);
        return options;
    }

    static void broker(int port) throws Exception {
        Client client = Client.create();
        Connection connection = client.connect("127.0.0.1", port, options("secret").maxFrameSize(4096).idleTimeout(2000));
        Sender sender = connection.openSender("/queues/j2");
        Tracker tracker = sender.send(Message.create("héllo").property("colour", "red").correlationId("c").durable(true));
        System.out.println("sent " + tracker.awaitSettlement(PATIENCE, TimeUnit.SECONDS).remoteState().getType());
        Receiver receiver = connection.openReceiver("/queues/j2", new ReceiverOptions().autoAccept(false).creditWindow(10));
        Delivery delivery = next(receiver);
        Message<String> message = delivery.message();
        System.out.println(message.body() + " " + message.property("colour") + " " + message.correlationId() + " "
            + message.durable() + " " + message.deliveryCount());
        delivery.release();
        System.out.println("released " + text(delivery = next(receiver)));
        delivery.modified(true, false);
        delivery = next(receiver);
        System.out.println("modified " + text(delivery) + " " + delivery.message().deliveryCount());
        delivery.reject("test:rejected", "no");

        byte[] large = new byte[500_000];
        for (int k = 0; k < large.length; k++) large[k] = (byte) (k * 7);
        sender.send(Message.create(large)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        delivery = next(receiver);
        System.out.println("bytes " + java.util.Arrays.equals(large, (byte[]) delivery.message().body()));
        delivery.accept();

        List<Tracker> trackers = new ArrayList<>();
        for (int k = 0; k < 500; k++) trackers.add(sender.send(Message.create("" + k)));
        for (Tracker one : trackers) one.awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        boolean ordered = true;
        for (int k = 0; k < 500; k++) {
            delivery = next(receiver);
            ordered &= text(delivery).equals("" + k);
            delivery.accept();
        }
        System.out.println("ordered " + ordered);
        receiver.close();

        Sender once = connection.openSender("/queues/j2", new SenderOptions().deliveryMode(DeliveryMode.AT_MOST_ONCE));
        once.send(Message.create("settled"));
        Receiver settled = connection.openReceiver("/queues/j2",
            new ReceiverOptions().deliveryMode(DeliveryMode.AT_MOST_ONCE).creditWindow(0));
        settled.addCredit(1);
        delivery = next(settled);
        System.out.println(text(delivery) + " " + delivery.remoteSettled());
        settled.addCredit(5);
        sender.send(Message.create("before drain")).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        settled.drain().get(PATIENCE, TimeUnit.SECONDS);
        System.out.println("drained " + settled.queuedDeliveries() + " " + text(next(settled)));
        sender.send(Message.create("after drain")).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        System.out.println("no credit " + (settled.tryReceive() == null));
        settled.addCredit(1);
        System.out.println(text(next(settled)));
        settled.close();

        StreamSender stream = connection.openStreamSender("/queues/j2");
        StreamSenderMessage parts = stream.beginMessage();
        OutputStream out = parts.body();
        for (int k = 0; k < 50; k++) out.write(new byte[2000]);
        out.close();
        parts.complete();
        parts.tracker().awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        StreamSenderMessage aborted = stream.beginMessage();
        OutputStream begun = aborted.body();
        begun.write(new byte[10_000]);
        begun.flush();
        aborted.abort();
        StreamReceiver streamed = connection.openStreamReceiver("/queues/j2");
        StreamDelivery pieces = streamed.receive(PATIENCE, TimeUnit.SECONDS);
        int count = 0;
        try (InputStream in = pieces.message().body()) {
            while (in.read() >= 0) count++;
        }
        pieces.accept();
        System.out.println("streamed " + count);
        streamed.close();

        Session transacted = connection.openSession();
        Sender inside = transacted.openSender("/queues/j2");
        transacted.beginTransaction();
        inside.send(Message.create("rolled back"));
        transacted.rollbackTransaction();
        transacted.beginTransaction();
        inside.send(Message.create("committed"));
        transacted.commitTransaction();
        Receiver taking = transacted.openReceiver("/queues/j2", new ReceiverOptions().autoAccept(false));
        transacted.beginTransaction();
        delivery = next(taking);
        delivery.accept();
        System.out.println("transaction " + text(delivery));
        transacted.commitTransaction();
        System.out.println("empty " + (taking.tryReceive() == null));
        transacted.close();

        Receiver dynamic = connection.openDynamicReceiver();
        Sender anonymous = connection.openAnonymousSender();
        anonymous.send(Message.create("reply").to(dynamic.address())).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        System.out.println("dynamic " + text(next(dynamic)));
        try {
            connection.openSender("/nowhere/x").openFuture().get(PATIENCE, TimeUnit.SECONDS);
        } catch (Exception error) {
            System.out.println("refused " + condition(error.getCause()));
        }
        TimeUnit.MILLISECONDS.sleep(3000);  // longer than the idle time-out
        sender.send(Message.create("alive")).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
        sender.detach();
        connection.close();
        try {
            client.connect("127.0.0.1", port, options("wrong")).openFuture().get(PATIENCE, TimeUnit.SECONDS);
        } catch (Exception error) {
            System.out.println("login refused");
        }
        client.close();
    }

    static String condition(Throwable error) {
        ErrorCondition found;
        if (error instanceof ClientResourceRemotelyClosedException closed) found = closed.getErrorCondition();
        else if (error instanceof ClientConnectionRemotelyClosedException closed) found = closed.getErrorCondition();
        else return "" + error;
        return found == null ? "none" : found.condition();
    }

    static void host(int port) throws Exception {
        Client client = Client.create();
        ConnectionOptions options = new ConnectionOptions();
        options.reconnectEnabled(false);
        Connection connection = client.connect("127.0.0.1", port, options);
        Sender sender = connection.openSender("x");
        for (String outcome : new String[] {"accepted", "rejected", "released", "modified"}) {
            Tracker tracker = sender.send(Message.create(outcome)).awaitSettlement(PATIENCE, TimeUnit.SECONDS);
            System.out.println(outcome + " " + tracker.remoteState().getType() + " " + tracker.remoteSettled());
        }
        Receiver receiver = connection.openReceiver("three", new ReceiverOptions().creditWindow(0));
        receiver.addCredit(5);
        receiver.drain().get(PATIENCE, TimeUnit.SECONDS);
        System.out.println("drained " + receiver.queuedDeliveries());
        for (String what : new String[] {"detach", "end", "close"}) {
            Session session = connection.openSession();
            Sender doomed = session.openSender("x");
            try {
                doomed.send(Message.create(what)).awaitSettlement(PATIENCE, TimeUnit.SECONDS);
            } catch (ClientException error) {
                System.out.println(what + " " + (error instanceof ClientLinkRemotelyClosedException ? "link"
                    : error instanceof ClientSessionRemotelyClosedException ? "session"
                    : error instanceof ClientConnectionRemotelyClosedException ? "connection" : "" + error)
                    + " " + condition(error));
            }
        }
        client.close();
    }
}
