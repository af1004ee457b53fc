import java.io.File;
import java.nio.file.*;
import org.apache.rocketmq.broker.*;
import org.apache.rocketmq.namesrv.*;

/**
 * A name server, or a broker, on loopback only. Arguments: a folder, the port of the name server, and for a broker its own.
 *
 * A broker's replication listens on all addresses. With duplicationEnable there is none, but then messages get no offsets and
 * nobody says how far the log may be read: so it is only set while the broker starts. Ends when its standard input does.
 */
public class Server {
    public static void main(String[] args) throws Exception {
        String folder = args[0], names = args[1], port = args.length > 2 ? args[2] : null;
        System.setProperty("user.home", folder);
        System.setProperty("rocketmq.home.dir", folder);
        Path file = Paths.get(folder, "server.conf");
        if (port == null) {
            Files.write(file, ("bindAddress=127.0.0.1\nlistenPort=" + names + "\n").getBytes());
            NamesrvStartup.main0(new String[] {"-c", file.toString()});
            serve();
        }
        Files.write(file, String.join("\n",
            "brokerClusterName=wirefmt", "brokerName=broker-a", "brokerId=0", "namesrvAddr=127.0.0.1:" + names,
            "brokerIP1=127.0.0.1", "bindAddress=127.0.0.1", "listenPort=" + port, "autoCreateTopicEnable=true",
            "storePathRootDir=" + folder + File.separator + "store",
            "storePathCommitLog=" + folder + File.separator + "store" + File.separator + "commitlog",
            "mappedFileSizeCommitLog=4194304", "mappedFileSizeConsumeQueue=60000", "duplicationEnable=true",
            "enablePropertyFilter=true", "transactionCheckInterval=2000", "transactionTimeOut=1000", "").getBytes());
        BrokerController broker = BrokerStartup.createBrokerController(new String[] {"-c", file.toString()});
        broker.start();
        broker.changeSpecialServiceStatus(true);    // what a broker with replication does by itself
        broker.getMessageStoreConfig().setDuplicationEnable(false);
        serve();
    }

    static void serve() throws Exception {
        System.out.println("\nready");
        while (System.in.read() >= 0) { }
        Runtime.getRuntime().halt(0);
    }
}
