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

        new Peer(connect(args), new Answers(stdout)).serve(System.in);
    }

    private static RedissonClient connect(String[] args) {
        try {
            return Connection.open(Options.parse(args));
        } catch (InvalidRequest bad) {
            throw exit(2, bad.getMessage());
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
