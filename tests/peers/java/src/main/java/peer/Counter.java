package peer;

import java.util.Objects;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** A plain decimal number in Redis, counted up by a GET and a SET: wrong at once if two count at the same time. */
final class Counter {
    /** Counts nothing. */
    static final Counter NONE = new Counter(null, Long.MAX_VALUE);

    private final RBucket<String> bucket;
    private final long until;
    private long counted;
    private String seen;

    private Counter(RBucket<String> bucket, long until) {
        this.bucket = bucket;
        this.until = until;
    }

    /** The counter of the plan. */
    static Counter of(LoopPlan plan, RedissonClient client) {
        RBucket<String> bucket = client.getBucket(plan.counter().orElseThrow(), StringCodec.INSTANCE);
        return new Counter(bucket, plan.until().orElse(Long.MAX_VALUE));
    }

    /** Adds one; false when the number has been reached that it counts to. */
    boolean count() {
        if (bucket == null) {
            return true;
        }
        String text = bucket.get();
        long number = text == null ? 0 : Long.parseLong(text);
        if (number >= until) {
            return false;
        }
        bucket.set(Long.toString(number + 1));
        counted++;
        return true;
    }

    /** Remembers the number, for {@link #isTorn}. */
    void read() {
        seen = bucket == null ? null : bucket.get();
    }

    /** Whether somebody has counted since {@link #read}. */
    boolean isTorn() {
        return bucket != null && !Objects.equals(seen, bucket.get());
    }

    long counted() {
        return counted;
    }
}
