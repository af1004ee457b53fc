import java.io.File;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/** ActiveMQ Artemis with AMQP 1.0 at the port and in the folder that the arguments name, until its input ends. With a third
 *  argument durable messages are on disk. */
public class Artemis {
    public static void main(String[] arguments) throws Exception {
        AddressSettings settings = new AddressSettings()
            .setAutoCreateQueues(true).setAutoCreateAddresses(true).setDefaultAddressRoutingType(RoutingType.ANYCAST)
            .setDefaultQueueRoutingType(RoutingType.ANYCAST).setMaxDeliveryAttempts(10);
        AddressSettings small = new AddressSettings()
            .setMaxSizeMessages(3).setAddressFullMessagePolicy(AddressFullMessagePolicy.FAIL);
        ConfigurationImpl configuration = new ConfigurationImpl();
        configuration.setBrokerInstance(new File(arguments[1]));
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ().setConfiguration(configuration
            .setPersistenceEnabled(arguments.length > 2).setJournalType(JournalType.NIO).setSecurityEnabled(false).setJMXManagementEnabled(false)
            .setGracefulShutdownEnabled(false)
            .addAddressSetting("#", settings).addAddressSetting("small", small)
            .addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + arguments[0]
                + "?protocols=AMQP;amqpIdleTimeout=2000;maxFrameSize=8192;useEpoll=false"));
        broker.start();
        System.out.println("up " + broker.getActiveMQServer().getRemotingService().getAcceptor("amqp").getActualPort());
        while (System.in.read() >= 0) { }
        System.exit(0);
    }
}
