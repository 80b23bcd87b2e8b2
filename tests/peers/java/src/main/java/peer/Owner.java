package peer;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Someone who holds locks: one real thread, since to Redisson a thread is the holder. */
final class Owner implements LockSource {
    private final ExecutorService thread;
    private final Locks locks;
    /** Like a variable of a real program, a lock object stays: Redisson keeps the last lease in it. */
    private final Map<LockTarget, RLock> known = new HashMap<>();
    private final Set<Acquisition> pending = ConcurrentHashMap.newKeySet();

    Owner(String name, Locks locks) {
        this.locks = locks;
        this.thread = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, "owner-" + name);
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Runs the task after all that this owner was given before. */
    void run(Runnable task) {
        thread.execute(task);
    }

    /** An acquisition that can be dropped from now on until its end. */
    Acquisition newAcquisition() {
        Acquisition acquisition = new Acquisition();
        pending.add(acquisition);
        acquisition.end().thenRun(() -> pending.remove(acquisition));
        return acquisition;
    }

    /** Drops every acquisition that is queued or running; gives those there were. */
    List<Acquisition> dropAcquisitions(ErrorCode reason) {
        return pending.stream().filter(acquisition -> acquisition.drop(reason)).toList();
    }

    /** Only for this owner's own thread. */
    @Override
    public RLock get(Request request) {
        return known.computeIfAbsent(LockTarget.of(request), locks::get);
    }

    void acceptNoMore() {
        thread.shutdown();
    }

    boolean awaitIdle(long millis) throws InterruptedException {
        return thread.awaitTermination(millis, TimeUnit.MILLISECONDS);
    }
}
