package peer;

import org.redisson.api.RAtomicLong;
import org.redisson.api.RedissonClient;

/** A room with a counter at its door: whoever comes in is told whether somebody is inside already. One owner's view of it. */
final class Room {
    /** Has no door. */
    static final Room NONE = new Room(null);

    private final RAtomicLong inside;
    private long overlaps;

    private Room(RAtomicLong inside) {
        this.inside = inside;
    }

    /** The room of the plan. */
    static Room of(LoopPlan plan, RedissonClient client) {
        return new Room(client.getAtomicLong(plan.room().orElseThrow()));
    }

    void enter() {
        if (inside != null && inside.incrementAndGet() != 1) {
            overlaps++;
        }
    }

    void leave() {
        if (inside != null) {
            inside.decrementAndGet();
        }
    }

    /** How often it found somebody inside. */
    long overlaps() {
        return overlaps;
    }
}
