package peer;

import org.redisson.api.RLock;

/** The lock of a loop, or the lack of one. */
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

    boolean acquire() throws InterruptedException;

    void release();
}
