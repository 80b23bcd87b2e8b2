package peer;

import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The one place that knows which Redisson call makes which kind of lock. */
final class Locks {
    private final RedissonClient client;

    Locks(RedissonClient client) {
        this.client = client;
    }

    RLock get(LockTarget target) {
        return switch (target.kind()) {
            case "lock" -> client.getLock(target.name());
            case "fair" -> client.getFairLock(target.name());
            case "read" -> client.getReadWriteLock(target.name()).readLock();
            case "write" -> client.getReadWriteLock(target.name()).writeLock();
            case "fenced" -> client.getFencedLock(target.name());
            case "non_reentrant" -> NewerApi.nonReentrantLock(client, target.name());
            case "non_reentrant_fair" -> NewerApi.nonReentrantFairLock(client, target.name());
            case "spin" -> client.getSpinLock(target.name());
            case "plain" -> PlainLock.of(client, target.name());
            case "multi" -> client.getMultiLock(reentrantLocks(target));
            case "majority" -> client.getRedLock(reentrantLocks(target));
            default -> throw new InvalidRequest("unknown kind " + target.kind());
        };
    }

    RSemaphore semaphore(String name) {
        return client.getSemaphore(name);
    }

    RPermitExpirableSemaphore expirableSemaphore(String name) {
        return client.getPermitExpirableSemaphore(name);
    }

    private RLock[] reentrantLocks(LockTarget target) {
        return target.names().stream().map(client::getLock).toArray(RLock[]::new);
    }
}
