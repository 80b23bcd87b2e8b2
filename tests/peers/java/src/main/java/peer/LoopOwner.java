package peer;

import java.util.OptionalLong;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** One owner of a loop. Its numbers may be read once its thread has ended. */
final class LoopOwner implements Runnable {
    private static final long FIRST_BACKOFF_MILLIS = 10;
    private static final long LAST_BACKOFF_MILLIS = 500;
    /** Parking is too coarse for anything shorter. */
    private static final long SHORTEST_PARK_NANOS = 100_000;

    private final Loop loop;
    private final LoopLocks locks;
    private final OptionalLong writePercent;
    private final Counter counter;
    private final Room room;
    private final long holdNanos;
    private final Latencies reads = new Latencies();
    private final Latencies writes = new Latencies();
    private final Latencies releases = new Latencies();
    private final Latencies turns = new Latencies();
    private long refused;
    private long errors;
    private long torn;
    private boolean counterReached;

    LoopOwner(Loop loop, LoopPlan plan, LoopLocks locks, Counter counter, Room room) {
        this.loop = loop;
        this.locks = locks;
        this.writePercent = plan.writePercent();
        this.counter = counter;
        this.room = room;
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
        return reads.count() + writes.count();
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

    /** How often a reader saw the counter change. */
    long torn() {
        return torn;
    }

    /** How often it found somebody in the room. */
    long overlaps() {
        return room.overlaps();
    }

    Latencies reads() {
        return reads;
    }

    /** Those of all acquisitions, but of a read/write lock only of the write lock. */
    Latencies writes() {
        return writes;
    }

    Latencies releases() {
        return releases;
    }

    /** Those of acquisition, use and release together. */
    Latencies turns() {
        return turns;
    }

    /** Takes the lock, uses it and releases it; false if any of that failed. */
    private boolean takeTurn() throws InterruptedException {
        boolean reading = writePercent.isPresent() && ThreadLocalRandom.current().nextInt(100) >= writePercent.getAsLong();
        LoopLock lock = reading ? locks.shared() : locks.exclusive();
        try {
            long start = System.nanoTime();
            if (!lock.acquire()) {
                refused++;
                return true;
            }
            (reading ? reads : writes).addSince(start);
            try {
                use(reading);
            } finally {
                release(lock);
            }
            turns.addSince(start);
            return true;
        } catch (RuntimeException failure) {
            return false;
        }
    }

    private void use(boolean reading) {
        if (reading) {
            counter.read();
            hold();
            torn += counter.isTorn() ? 1 : 0;
        } else {
            room.enter();
            try {
                counterReached = !counter.count();
                hold();
            } finally {
                room.leave();
            }
        }
    }

    private void release(LoopLock lock) {
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
