package peer;

import java.util.concurrent.RejectedExecutionException;
import org.redisson.RedissonShutdownException;

/** The errors a request can be answered with. */
enum ErrorCode {
    NOT_HELD,
    WOULD_DEADLOCK,
    NOT_REPLICATED,
    CANCELLED,
    INVALID,
    CLOSED,
    REDIS;

    static ErrorCode of(Throwable failure) {
        if (failure instanceof PeerException known) {
            return known.code();
        }
        if (failure instanceof IllegalMonitorStateException) {
            return NOT_HELD;
        }
        if (failure instanceof UnsupportedOperationException) {
            return INVALID;
        }
        if (failure instanceof RedissonShutdownException || failure instanceof RejectedExecutionException) {
            return CLOSED;
        }
        return isNotReplicated(failure) ? NOT_REPLICATED : REDIS;
    }

    String wireName() {
        return name().toLowerCase();
    }

    private static boolean isNotReplicated(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            // By name: old versions of Redisson do not have the class.
            if (cause.getClass().getSimpleName().equals("NoSyncedSlavesException")) {
                return true;
            }
        }
        return false;
    }
}
