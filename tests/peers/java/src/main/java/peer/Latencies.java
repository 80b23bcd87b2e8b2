package peer;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** How long each of many calls took. */
final class Latencies {
    private long[] nanos = new long[1_024];
    private int count;

    /** In microseconds. */
    record Summary(long p50, long p99, long max) {
    }

    void addSince(long startNanoTime) {
        long took = System.nanoTime() - startNanoTime;
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, 2 * count);
        }
        nanos[count++] = took;
    }

    int count() {
        return count;
    }

    static Summary summary(List<Latencies> parts) {
        long[] sorted = parts.stream().flatMapToLong(part -> Arrays.stream(part.nanos, 0, part.count)).sorted().toArray();
        return new Summary(percentile(sorted, 50), percentile(sorted, 99), percentile(sorted, 100));
    }

    private static long percentile(long[] sorted, int percent) {
        if (sorted.length == 0) {
            return 0;
        }
        int rank = (int) Math.ceil(sorted.length * (percent / 100.0));
        return TimeUnit.NANOSECONDS.toMicros(sorted[rank - 1]);
    }
}
