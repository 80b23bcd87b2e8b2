package peer;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * The lock that services write by hand: SET key token NX PX lease, and a script that compares and deletes. It polls, and nothing
 * renews it. In the shape of an RLock, as far as the peer calls that.
 */
final class PlainLock {
    private static final String RELEASE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    private static final long DEFAULT_LEASE_MILLIS = 30_000;
    private static final long POLL_MILLIS = 20;

    private final RedissonClient client;
    private final RBucket<String> bucket;
    private final ThreadLocal<String> token = new ThreadLocal<>();

    private PlainLock(RedissonClient client, String name) {
        this.client = client;
        this.bucket = client.getBucket(name, StringCodec.INSTANCE);
    }

    static RLock of(RedissonClient client, String name) {
        PlainLock lock = new PlainLock(client, name);
        return (RLock) Proxy.newProxyInstance(
                RLock.class.getClassLoader(), new Class<?>[] {RLock.class}, (self, method, args) -> lock.call(method, args));
    }

    private Object call(Method method, Object[] args) throws InterruptedException {
        return switch (method.getName()) {
            case "lockInterruptibly" -> {
                acquire(Long.MAX_VALUE, (long) args[0]);
                yield null;
            }
            case "tryLock" -> args == null ? acquire(0, -1) : acquire((long) args[0], (long) args[1]);
            case "unlock" -> {
                release();
                yield null;
            }
            case "forceUnlock" -> bucket.delete();
            case "isLocked" -> bucket.isExists();
            case "isHeldByCurrentThread" -> token.get() != null && token.get().equals(bucket.get());
            case "remainTimeToLive" -> bucket.remainTimeToLive();
            default -> throw new InvalidRequest("a plain lock has no " + method.getName());
        };
    }

    private boolean acquire(long waitMillis, long leaseMillis) throws InterruptedException {
        Duration lease = Duration.ofMillis(leaseMillis < 0 ? DEFAULT_LEASE_MILLIS : leaseMillis);
        long begun = System.nanoTime();
        String mine = UUID.randomUUID().toString();
        while (!bucket.setIfAbsent(mine, lease)) {
            if (TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun) >= waitMillis) {
                return false;
            }
            Thread.sleep(POLL_MILLIS);
        }
        token.set(mine);
        return true;
    }

    private void release() {
        String mine = token.get();
        token.remove();
        boolean released = mine != null && client.getScript(StringCodec.INSTANCE)
                .<Boolean>eval(RScript.Mode.READ_WRITE, RELEASE, RScript.ReturnType.BOOLEAN, List.of(bucket.getName()), mine);
        if (!released) {
            throw new IllegalMonitorStateException("the plain lock is not held");
        }
    }
}
