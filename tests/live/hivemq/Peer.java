import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** HiveMQ's client at the server that the arguments name: address, port, version. It prints a line for each thing it sees. */
public class Peer {
    static final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    static String host;
    static int port;

    static <T> T wait(CompletableFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    /** Carries one connection to the server, and can cut it: the client has no call for that. */
    static class Relay {
        final ServerSocket listening = new ServerSocket(0, 1, InetAddress.getByName(host));
        final Socket onward = new Socket(host, port);

        Relay() throws IOException {
            spawn(() -> {
                Socket client = listening.accept();
                spawn(() -> onward.getInputStream().transferTo(client.getOutputStream()));
                client.getInputStream().transferTo(onward.getOutputStream());
            });
        }

        interface Work {
            void run() throws IOException;
        }

        static void spawn(Work work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (IOException cut) {
                    return;
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** A client of one version. */
    abstract static class Client {
        final BlockingQueue<String> messages = new LinkedBlockingQueue<>();

        abstract boolean connect(boolean clean) throws Exception;

        abstract int subscribe(String filter, int qos) throws Exception;

        abstract void unsubscribe(String filter) throws Exception;

        abstract void publish(String topic, int qos, boolean retain, byte[] payload) throws Exception;

        abstract void disconnect() throws Exception;

        void publish(String topic, int qos, boolean retain, String payload) throws Exception {
            publish(topic, qos, retain, payload.getBytes(StandardCharsets.UTF_8));
        }

        void put(Object topic, MqttQos qos, boolean retain, byte[] payload, String more) {
            String said = payload.length > 100 ? payload.length + " octets" : new String(payload, StandardCharsets.UTF_8);
            messages.add((topic + " " + qos.getCode() + " " + retain + " " + said + more).strip());
        }

        void take() throws Exception {
            String message = messages.poll(60, TimeUnit.SECONDS);
            if (message == null) {
                throw new IllegalStateException("no message");
            }
            out.println(message);
        }
    }

    static class Client3 extends Client {
        final Mqtt3AsyncClient client;

        Client3(String identifier, int port, String will) {
            var building = MqttClient.builder().useMqttVersion3().identifier(identifier).serverHost(host).serverPort(port);
            if (will != null) {
                building.willPublish().topic(will).qos(MqttQos.AT_LEAST_ONCE).retain(true).payload("gone".getBytes())
                    .applyWillPublish();
            }
            client = building.buildAsync();
            client.publishes(MqttGlobalPublishFilter.ALL, m -> put(m.getTopic(), m.getQos(), m.isRetain(),
                m.getPayloadAsBytes(), ""));
        }

        boolean connect(boolean clean) throws Exception {
            return Peer.wait(client.connectWith().cleanSession(clean).send()).isSessionPresent();
        }

        int subscribe(String filter, int qos) throws Exception {
            return Peer.wait(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send()).getReturnCodes()
                .get(0).getCode();
        }

        void unsubscribe(String filter) throws Exception {
            Peer.wait(client.unsubscribeWith().topicFilter(filter).send());
        }

        void publish(String topic, int qos, boolean retain, byte[] payload) throws Exception {
            Peer.wait(client.publishWith().topic(topic).qos(MqttQos.fromCode(qos)).retain(retain).payload(payload).send());
        }

        void disconnect() throws Exception {
            Peer.wait(client.disconnect());
        }
    }

    static class Client5 extends Client {
        final Mqtt5AsyncClient client;

        Client5(String identifier, int port, String will) {
            var building = MqttClient.builder().useMqttVersion5().identifier(identifier).serverHost(host).serverPort(port);
            if (will != null) {
                building.willPublish().topic(will).qos(MqttQos.AT_LEAST_ONCE).retain(true).payload("gone".getBytes())
                    .applyWillPublish();
            }
            client = building.buildAsync();
            client.publishes(MqttGlobalPublishFilter.ALL, m -> put(m.getTopic(), m.getQos(), m.isRetain(),
                m.getPayloadAsBytes(), properties(m)));
        }

        static String properties(Mqtt5Publish message) {
            if (message.getContentType().isEmpty()) {
                return "";
            }
            StringBuilder said = new StringBuilder(" " + message.getContentType().get());
            said.append(" ").append(message.getResponseTopic().get()).append(" ");
            said.append(StandardCharsets.UTF_8.decode(message.getCorrelationData().get()));
            message.getUserProperties().asList().forEach(p -> said.append(" " + p.getName() + "=" + p.getValue()));
            return said.toString();
        }

        boolean connect(boolean clean) throws Exception {
            return Peer.wait(client.connectWith().cleanStart(clean).sessionExpiryInterval(clean ? 0 : 600).send())
                .isSessionPresent();
        }

        int subscribe(String filter, int qos) throws Exception {
            return Peer.wait(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send()).getReasonCodes()
                .get(0).getCode();
        }

        void unsubscribe(String filter) throws Exception {
            Peer.wait(client.unsubscribeWith().topicFilter(filter).send());
        }

        void publish(String topic, int qos, boolean retain, byte[] payload) throws Exception {
            Peer.wait(client.publishWith().topic(topic).qos(MqttQos.fromCode(qos)).retain(retain).payload(payload).send());
        }

        void describe(String topic) throws Exception {
            Peer.wait(client.publishWith().topic(topic).qos(MqttQos.AT_LEAST_ONCE).payload("described".getBytes())
                .contentType("text/plain").responseTopic("answers").correlationData("c1".getBytes())
                .userProperties().add("k", "1").add("k", "2").applyUserProperties().send());
        }

        void disconnect() throws Exception {
            Peer.wait(client.disconnect());
        }
    }

    static Client client(int version, String identifier, int port, String will) {
        return version == 5 ? new Client5(identifier, port, will) : new Client3(identifier, port, will);
    }

    public static void main(String[] arguments) throws Exception {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        int version = Integer.parseInt(arguments[2]);
        Client publisher = client(version, "publisher", port, null);
        Client subscriber = client(version, "subscriber", port, null);
        Client late = client(version, "late", port, null);
        for (Client client : List.of(publisher, subscriber, late)) {
            out.println("present " + client.connect(true));
        }

        for (int qos = 0; qos < 3; qos++) {
            out.println("granted " + subscriber.subscribe("q" + qos + "/#", qos));
        }
        for (int granted = 0; granted < 3; granted++) {
            for (int qos = 0; qos < 3; qos++) {
                for (int n = 0; n < 10; n++) {
                    publisher.publish("q" + granted + "/é", qos, false, "m" + n);
                }
                for (int n = 0; n < 10; n++) {
                    subscriber.take();
                }
            }
        }
        publisher.publish("q2/large", 2, false, new byte[300_000]);
        subscriber.take();
        subscriber.unsubscribe("q1/#");
        publisher.publish("q1/x", 1, false, "not for you");
        publisher.publish("q2/x", 1, false, "for you");
        subscriber.take();
        if (publisher instanceof Client5) {
            ((Client5) publisher).describe("q2/described");
            subscriber.take();
        }

        publisher.publish("r", 1, true, "kept");
        subscriber.subscribe("r", 1);
        subscriber.take();
        publisher.publish("r", 1, true, "new");
        subscriber.take();
        publisher.publish("r", 1, true, "");
        subscriber.take();
        late.subscribe("r", 1);
        publisher.publish("r", 1, false, "after");
        late.take();
        subscriber.take();

        Relay relay = new Relay();
        Client dying = client(version, "dying", relay.listening.getLocalPort(), "w");
        dying.connect(true);
        subscriber.subscribe("w", 1);
        relay.onward.close();
        subscriber.take();
        late.subscribe("w", 1);
        late.take();
        Client leaving = client(version, "leaving", port, "v");
        leaving.connect(true);
        subscriber.subscribe("v", 1);
        leaving.disconnect();
        publisher.publish("v", 1, false, "no will");
        subscriber.take();

        Client keeper = client(version, "keeper", port, null);
        out.println("present " + keeper.connect(false));
        keeper.subscribe("s/#", 2);
        keeper.disconnect();
        for (int n = 0; n < 10; n++) {
            publisher.publish("s/1", 1, false, "m" + n);
            publisher.publish("s/2", 2, false, "m" + n);
        }
        out.println("present " + keeper.connect(false));
        for (int n = 0; n < 20; n++) {
            keeper.take();
        }
        publisher.publish("s/2", 2, false, "again");
        keeper.take();
        for (Client client : List.of(keeper, late, subscriber, publisher)) {
            client.disconnect();
        }
        out.println("done");
        System.exit(0);
    }
}
