package peer;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Semaphores and latches. */
final class Synchronizers {
    private final RedissonClient client;

    Synchronizers(RedissonClient client) {
        this.client = client;
    }

    /** Whether the request is about one of them. */
    static boolean areMeantBy(Request request) {
        String kind = request.text("kind").orElse("lock");
        return kind.equals("semaphore") || kind.equals("expirable_semaphore") || kind.equals("latch");
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
        if (isExpirable(request)) {
            List<String> ids = acquire(request, expirable(request), permits, waits, wait);
            return ids.isEmpty() ? false : ids;
        }
        if (waits) {
            semaphore(request).acquire(permits);
            return true;
        }
        return semaphore(request).tryAcquire(permits, java.time.Duration.ofMillis(wait));
    }

    /** One id is asked for by itself: Redisson has scripts of its own for that. */
    private static List<String> acquire(
            Request request, RPermitExpirableSemaphore semaphore, int permits, boolean waits, long wait) throws InterruptedException {
        long lease = request.number("lease_ms", 1).orElse(-1);
        if (permits == 1) {
            String id = waits
                    ? lease < 0 ? semaphore.acquire() : semaphore.acquire(lease, TimeUnit.MILLISECONDS)
                    : semaphore.tryAcquire(wait, lease, TimeUnit.MILLISECONDS);
            return id == null ? List.of() : List.of(id);
        }
        if (waits) {
            return lease < 0 ? semaphore.acquire(permits) : semaphore.acquire(permits, lease, TimeUnit.MILLISECONDS);
        }
        List<String> ids = semaphore.tryAcquire(permits, wait, lease, TimeUnit.MILLISECONDS);
        return ids == null ? List.of() : ids;
    }

    private static Object perform(Request request, RPermitExpirableSemaphore semaphore, int n) {
        return switch (request.op()) {
            case "set" -> semaphore.trySetPermits(n);
            case "set_total" -> {
                semaphore.setPermits(n);
                yield null;
            }
            case "add" -> {
                semaphore.addPermits(n);
                yield null;
            }
            case "count" -> semaphore.availablePermits();
            case "acquired" -> semaphore.acquiredPermits();
            case "permits" -> semaphore.getPermits();
            case "remaining_ms" -> remaining(semaphore, request.requiredTexts("ids").get(0));
            case "set_lease" -> semaphore.updateLeaseTime(
                    request.requiredTexts("ids").get(0), request.number("lease_ms", 1).orElseThrow(), TimeUnit.MILLISECONDS);
            case "unlock" -> {
                release(semaphore, request.requiredTexts("ids"));
                yield null;
            }
            default -> throw new InvalidRequest(request.op() + " is not for an expirable semaphore");
        };
    }

    private static void release(RPermitExpirableSemaphore semaphore, List<String> ids) {
        try {
            if (ids.size() == 1) {
                semaphore.release(ids.get(0));
            } else {
                semaphore.release(ids);
            }
        } catch (RuntimeException failure) {
            if (isUnknown(failure)) {
                throw new PeerException(ErrorCode.NOT_HELD, failure.getCause().getMessage());
            }
            throw failure;
        }
    }

    private static long remaining(RPermitExpirableSemaphore semaphore, String id) {
        try {
            return semaphore.getLeaseTime(id);
        } catch (RuntimeException failure) {
            if (isUnknown(failure)) {
                return -2;
            }
            throw failure;
        }
    }

    /** Redisson wraps what it says of a permit that is not out. */
    private static boolean isUnknown(RuntimeException failure) {
        return failure.getCause() instanceof IllegalArgumentException;
    }

    Object perform(Request request) {
        int n = (int) request.number("n", Integer.MIN_VALUE).orElse(1);
        if (isExpirable(request)) {
            return perform(request, expirable(request), n);
        }
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

    private static boolean isExpirable(Request request) {
        return request.text("kind").orElse("").equals("expirable_semaphore");
    }

    private RPermitExpirableSemaphore expirable(Request request) {
        return client.getPermitExpirableSemaphore(request.requiredText("name"));
    }

    private RCountDownLatch latch(Request request) {
        return client.getCountDownLatch(request.requiredText("name"));
    }

    private RSemaphore semaphore(Request request) {
        return client.getSemaphore(request.requiredText("name"));
    }
}
