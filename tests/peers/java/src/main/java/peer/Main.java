package peer;

import java.io.PrintStream;
import org.redisson.api.RedissonClient;

/** A program that takes Redisson locks as told on stdin, and answers on stdout. */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream stdout = System.out;
        System.setOut(System.err); // nothing but answers may reach stdout

        Options options = options(args);
        RedissonClient client = connect(options);
        new Peer(client, new Counters(client, options), new Answers(stdout)).serve(System.in);
    }

    private static Options options(String[] args) {
        try {
            return Options.parse(args);
        } catch (InvalidRequest bad) {
            throw exit(2, bad.getMessage());
        }
    }

    private static RedissonClient connect(Options options) {
        try {
            return Connection.open(options);
        } catch (RuntimeException failure) {
            throw exit(1, "cannot connect: " + failure);
        }
    }

    private static IllegalStateException exit(int status, String message) {
        System.err.println("peer: " + message);
        System.exit(status);
        return new IllegalStateException("unreachable");
    }
}
