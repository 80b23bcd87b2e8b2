package peer;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.Properties;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** What each operation does and what it answers. All of them run on the thread of their owner, if they have one. */
final class Operations {
    private final RedissonClient client;

    Operations(RedissonClient client) {
        this.client = client;
    }

    /** Takes a lock; the one kind of operation that waits. */
    static Object acquire(Request request, RLock lock) throws InterruptedException {
        Terms terms = Terms.of(request);
        boolean acquired;
        try {
            acquired = request.op().equals("try_lock") ? terms.tryLock(lock) : waitFor(lock, terms);
        } catch (IllegalMonitorStateException reentry) {
            throw new PeerException(ErrorCode.WOULD_DEADLOCK, reentry.getMessage());
        }
        if (lock instanceof RFencedLock fenced) {
            // Not lockAndGetToken(lease): in 4.7 it ignores the lease and cannot be interrupted.
            return acquired ? fenced.getToken() : null;
        }
        return acquired;
    }

    Object perform(Request request, LockSource locks) {
        return switch (request.op()) {
            case "hello" -> Map.of("impl", "redisson", "version", redissonVersion(), "client", client.getId());
            case "unlock" -> {
                locks.get(request).unlock();
                yield null;
            }
            case "force_unlock" -> locks.get(request).forceUnlock();
            case "is_locked" -> locks.get(request).isLocked();
            case "is_held" -> locks.get(request).isHeldByCurrentThread();
            case "hold_count" -> locks.get(request).getHoldCount();
            case "remaining_ms" -> locks.get(request).remainTimeToLive();
            case "token" -> token(locks.get(request));
            case "lost", "inspect" -> throw new InvalidRequest(request.op() + " is for the Rust peer only");
            default -> throw new InvalidRequest("unknown op " + request.op());
        };
    }

    private static boolean waitFor(RLock lock, Terms terms) throws InterruptedException {
        terms.lock(lock);
        return true;
    }

    private static Long token(RLock lock) {
        if (lock instanceof RFencedLock fenced) {
            return fenced.getToken();
        }
        throw new InvalidRequest("only a fenced lock has a token");
    }

    private static String redissonVersion() {
        try (InputStream file = Redisson.class.getResourceAsStream("/META-INF/maven/org.redisson/redisson/pom.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return properties.getProperty("version");
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }
}
