package peer;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/** The lock of a loop, or a semaphore in its place, or the lack of one. */
interface LoopLock {
    /** Lets everyone in: shows what goes wrong without a lock. */
    LoopLock NONE = new LoopLock() {
        @Override
        public boolean acquire() {
            return true;
        }

        @Override
        public void release() {
        }
    };

    static LoopLock on(RLock lock, Terms terms) {
        return new LoopLock() {
            @Override
            public boolean acquire() throws InterruptedException {
                if (terms.waitMillis().isPresent()) {
                    return terms.tryLock(lock);
                }
                terms.lock(lock);
                return true;
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    /** One permit a turn. */
    static LoopLock on(RSemaphore semaphore, Terms terms) {
        return new LoopLock() {
            @Override
            public boolean acquire() throws InterruptedException {
                if (terms.waitMillis().isPresent()) {
                    return semaphore.tryAcquire(terms.waitMillis().getAsLong(), TimeUnit.MILLISECONDS);
                }
                semaphore.acquire();
                return true;
            }

            @Override
            public void release() {
                semaphore.release();
            }
        };
    }

    /** One permit a turn, of one owner. */
    static LoopLock on(RPermitExpirableSemaphore semaphore, Terms terms) {
        return new LoopLock() {
            private String id;

            @Override
            public boolean acquire() throws InterruptedException {
                long lease = terms.leaseMillis().orElse(Terms.NO_LEASE);
                if (terms.waitMillis().isPresent()) {
                    id = semaphore.tryAcquire(terms.waitMillis().getAsLong(), lease, TimeUnit.MILLISECONDS);
                } else {
                    id = lease < 0 ? semaphore.acquire() : semaphore.acquire(lease, TimeUnit.MILLISECONDS);
                }
                return id != null;
            }

            @Override
            public void release() {
                semaphore.release(id);
            }
        };
    }

    boolean acquire() throws InterruptedException;

    void release();
}
