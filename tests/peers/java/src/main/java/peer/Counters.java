package peer;

import org.redisson.api.RedissonClient;

/** Where the counters of loops are: beside the locks, or on a server of their own, which is connected to when first needed. */
final class Counters {
    private final RedissonClient locks;
    private final Options options;
    private RedissonClient own;

    Counters(RedissonClient locks, Options options) {
        this.locks = locks;
        this.options = options;
    }

    Counter of(LoopPlan plan) {
        return plan.counter().isEmpty() ? Counter.NONE : Counter.of(plan, client());
    }

    Room roomOf(LoopPlan plan) {
        return plan.room().isEmpty() ? Room.NONE : Room.of(plan, client());
    }

    synchronized void close() {
        if (own != null) {
            own.shutdown();
        }
    }

    private synchronized RedissonClient client() {
        if (own == null) {
            own = options.ofCounters().map(Connection::open).orElse(null);
        }
        return own == null ? locks : own;
    }
}
