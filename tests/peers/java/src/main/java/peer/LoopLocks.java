package peer;

import java.util.Optional;

/** The locks of one owner of a loop: one that excludes all others, and where there is one, that of readers. */
record LoopLocks(LoopLock exclusive, LoopLock shared) {

    static LoopLocks of(LoopPlan plan, int owner, Locks locks) {
        Optional<LockTarget> target = plan.targetOf(owner);
        if (plan.writePercent().isEmpty()) {
            LoopLock only = target.map(found -> one(found, plan.terms(), locks)).orElse(LoopLock.NONE);
            return new LoopLocks(only, only);
        }
        LockTarget both = target.orElseThrow();
        return new LoopLocks(
                LoopLock.on(locks.get(both.ofKind("write")), plan.terms()),
                LoopLock.on(locks.get(both.ofKind("read")), plan.terms()));
    }

    private static LoopLock one(LockTarget target, Terms terms, Locks locks) {
        if (target.kind().equals("semaphore")) {
            return LoopLock.on(locks.semaphore(target.name()), terms);
        }
        if (target.kind().equals("expirable_semaphore")) {
            return LoopLock.on(locks.expirableSemaphore(target.name()), terms);
        }
        return LoopLock.on(locks.get(target), terms);
    }
}
