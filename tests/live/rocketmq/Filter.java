import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What the real broker makes of filter expressions. Each line of standard input: an expression and properties (name=value) in
 * base64, separated by blanks. For each a line: "bad", "true" or "false".
 */
public class Filter {
    static String text(String octets) { return new String(Base64.getDecoder().decode(octets), StandardCharsets.UTF_8); }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            Map<String, String> properties = new HashMap<>();
            for (int i = 1; i < parts.length; i++) {
                String[] pair = text(parts[i]).split("=", 2);
                properties.put(pair[0], pair[1]);
            }
            Expression expression;
            try {
                expression = FilterFactory.INSTANCE.get("SQL92").compile(text(parts[0].equals("=") ? "" : parts[0]));
            } catch (Throwable error) {
                out.println("bad");
                continue;
            }
            Object result = null;
            try {
                result = expression.evaluate(new MessageEvaluationContext(properties));
            } catch (Throwable error) {
            }
            out.println(Boolean.TRUE.equals(result));
        }
        out.flush();
    }
}
