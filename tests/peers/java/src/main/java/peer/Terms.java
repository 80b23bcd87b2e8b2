package peer;

import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** How long to wait for a lock, and how long to keep it. */
record Terms(OptionalLong waitMillis, OptionalLong leaseMillis) {
    /** To Redisson: keep the lock until it is released, by the watchdog. */
    static final long NO_LEASE = -1;

    static Terms of(Request request) {
        return new Terms(request.number("wait_ms", 0), request.number("lease_ms", 1));
    }

    /** Waits as long as it takes, or until interrupted. */
    void lock(RLock lock) throws InterruptedException {
        lock.lockInterruptibly(leaseMillis.orElse(NO_LEASE), TimeUnit.MILLISECONDS);
    }

    boolean tryLock(RLock lock) throws InterruptedException {
        if (waitMillis.isEmpty() && leaseMillis.isEmpty()) {
            return lock.tryLock();
        }
        return lock.tryLock(waitMillis.orElse(0), leaseMillis.orElse(NO_LEASE), TimeUnit.MILLISECONDS);
    }
}
