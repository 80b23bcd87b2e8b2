package peer;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;

/** An acquisition sent and not yet answered, queued or running, which may be dropped until then. */
final class Acquisition {
    private final CompletableFuture<Boolean> end = new CompletableFuture<>();
    private Thread runner;
    private ErrorCode dropReason;
    private boolean over;

    /** Runs the acquisition, unless it was dropped before; an interrupt never outlives it. */
    Object run(Callable<Object> acquire) throws Exception {
        try {
            start();
            return acquire.call();
        } catch (Exception failure) {
            throw wasInterrupted(failure) ? dropped() : failure;
        } finally {
            stop();
        }
    }

    /** False if it is too late to drop it. */
    synchronized boolean drop(ErrorCode reason) {
        if (over) {
            return false;
        }
        dropReason = reason;
        if (runner != null) {
            runner.interrupt();
        }
        return true;
    }

    /** Done when the acquisition has been answered: true if it was dropped. */
    CompletableFuture<Boolean> end() {
        return end;
    }

    private synchronized void start() {
        if (dropReason != null) {
            throw dropped();
        }
        runner = Thread.currentThread();
    }

    private synchronized void stop() {
        over = true;
        runner = null;
        Thread.interrupted();
    }

    private synchronized PeerException dropped() {
        return new PeerException(dropReason, "the acquisition was dropped");
    }

    /** Interrupted while it waits for Redis, Redisson hides the interrupt in an exception of its own. */
    private static boolean wasInterrupted(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof InterruptedException) {
                return true;
            }
        }
        return false;
    }
}
