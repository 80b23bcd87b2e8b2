package peer;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Many owners that take and release a lock, over and over, for so long. */
final class Loop {
    private final LoopPlan plan;
    private final List<LoopOwner> owners = new ArrayList<>();
    private final CountDownLatch ready;
    private final CountDownLatch started = new CountDownLatch(1);
    private volatile boolean stopped;
    private long deadline;

    Loop(LoopPlan plan, Locks locks, Counters counters) {
        this.plan = plan;
        this.ready = new CountDownLatch(plan.owners());
        for (int i = 0; i < plan.owners(); i++) {
            owners.add(new LoopOwner(this, plan, LoopLocks.of(plan, i, locks), counters.of(plan), counters.roomOf(plan)));
        }
    }

    LoopReport run() throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (LoopOwner owner : owners) {
            Thread thread = new Thread(owner, "loop-" + threads.size());
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        ready.await();
        deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(plan.millis());
        long cpuBefore = cpuMicros();
        started.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        return LoopReport.of(owners, cpuMicros() - cpuBefore);
    }

    /** What CPU this process has used so far. */
    private static long cpuMicros() {
        return TimeUnit.NANOSECONDS.toMicros(ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime());
    }

    void stop() {
        stopped = true;
    }

    boolean isOver() {
        return stopped || System.nanoTime() - deadline >= 0;
    }

    /** All owners set out together. */
    void awaitStart() throws InterruptedException {
        ready.countDown();
        started.await();
    }
}
