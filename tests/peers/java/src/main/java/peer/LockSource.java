package peer;

import org.redisson.api.RLock;

/** Gives the lock object a request is to be carried out with. */
interface LockSource {
    RLock get(Request request);
}
