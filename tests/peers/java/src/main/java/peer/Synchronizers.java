package peer;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Semaphores and latches, which have no owner. */
final class Synchronizers {
    private final RedissonClient client;

    Synchronizers(RedissonClient client) {
        this.client = client;
    }

    /** Whether the request is about one of them. */
    static boolean areMeantBy(Request request) {
        String kind = request.text("kind").orElse("lock");
        return kind.equals("semaphore") || kind.equals("latch");
    }

    /** Takes permits, or waits for the latch. */
    Object acquire(Request request) throws InterruptedException {
        boolean waits = request.op().equals("lock");
        long wait = request.number("wait_ms", 0).orElse(0);
        if (isLatch(request)) {
            if (waits) {
                latch(request).await();
                return true;
            }
            return latch(request).await(wait, TimeUnit.MILLISECONDS);
        }
        int permits = (int) request.number("n", 0).orElse(1);
        if (waits) {
            semaphore(request).acquire(permits);
            return true;
        }
        return semaphore(request).tryAcquire(permits, java.time.Duration.ofMillis(wait));
    }

    Object perform(Request request) {
        int n = (int) request.number("n", Integer.MIN_VALUE).orElse(1);
        return isLatch(request) ? perform(request, latch(request), n) : perform(request, semaphore(request), n);
    }

    private static Object perform(Request request, RCountDownLatch latch, int n) {
        return switch (request.op()) {
            case "set" -> latch.trySetCount(n);
            case "count" -> latch.getCount();
            case "count_down" -> {
                latch.countDown();
                yield null;
            }
            default -> throw new InvalidRequest(request.op() + " is not for a latch");
        };
    }

    private static Object perform(Request request, RSemaphore semaphore, int n) {
        return switch (request.op()) {
            case "set" -> semaphore.trySetPermits(n);
            case "count" -> semaphore.availablePermits();
            case "drain" -> semaphore.drainPermits();
            case "unlock" -> {
                semaphore.release(n);
                yield null;
            }
            case "add" -> {
                semaphore.addPermits(n);
                yield null;
            }
            default -> throw new InvalidRequest(request.op() + " is not for a semaphore");
        };
    }

    private static boolean isLatch(Request request) {
        return request.text("kind").orElse("").equals("latch");
    }

    private RCountDownLatch latch(Request request) {
        return client.getCountDownLatch(request.requiredText("name"));
    }

    private RSemaphore semaphore(Request request) {
        return client.getSemaphore(request.requiredText("name"));
    }
}
