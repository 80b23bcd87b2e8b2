package peer;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** One owner of a loop. Its numbers may be read once its thread has ended. */
final class LoopOwner implements Runnable {
    private static final long FIRST_BACKOFF_MILLIS = 10;
    private static final long LAST_BACKOFF_MILLIS = 500;
    /** Parking is too coarse for anything shorter. */
    private static final long SHORTEST_PARK_NANOS = 100_000;

    private final Loop loop;
    private final LoopLock lock;
    private final Counter counter;
    private final long holdNanos;
    private final Latencies acquires = new Latencies();
    private final Latencies releases = new Latencies();
    private long refused;
    private long errors;
    private boolean counterReached;

    LoopOwner(Loop loop, LoopPlan plan, LoopLock lock, Counter counter) {
        this.loop = loop;
        this.lock = lock;
        this.counter = counter;
        this.holdNanos = TimeUnit.MICROSECONDS.toNanos(plan.holdMicros());
    }

    @Override
    public void run() {
        try {
            loop.awaitStart();
            long backoff = FIRST_BACKOFF_MILLIS;
            while (!loop.isOver() && !counterReached) {
                if (takeTurn()) {
                    backoff = FIRST_BACKOFF_MILLIS;
                } else {
                    errors++;
                    Thread.sleep(backoff);
                    backoff = Math.min(2 * backoff, LAST_BACKOFF_MILLIS);
                }
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    long acquired() {
        return acquires.count();
    }

    long refused() {
        return refused;
    }

    long errors() {
        return errors;
    }

    long counted() {
        return counter.counted();
    }

    Latencies acquires() {
        return acquires;
    }

    Latencies releases() {
        return releases;
    }

    /** Takes the lock, uses it and releases it; false if any of that failed. */
    private boolean takeTurn() throws InterruptedException {
        try {
            long start = System.nanoTime();
            if (!lock.acquire()) {
                refused++;
                return true;
            }
            acquires.addSince(start);
            try {
                counterReached = !counter.count();
                hold();
            } finally {
                release();
            }
            return true;
        } catch (RuntimeException failure) {
            return false;
        }
    }

    private void release() {
        long start = System.nanoTime();
        lock.release();
        releases.addSince(start);
    }

    private void hold() {
        long end = System.nanoTime() + holdNanos;
        for (long left = holdNanos; left > 0 && !counterReached; left = end - System.nanoTime()) {
            if (left >= SHORTEST_PARK_NANOS) {
                LockSupport.parkNanos(left);
            } else {
                Thread.onSpinWait();
            }
        }
    }
}
