package peer;

import java.util.Optional;
import java.util.OptionalLong;

/** What a loop is to do. No target: the owners take no lock at all. */
record LoopPlan(
        Optional<LockTarget> target,
        Terms terms,
        int owners,
        long millis,
        boolean each,
        long holdMicros,
        Optional<String> counter,
        OptionalLong until) {

    static LoopPlan of(Request request) {
        Optional<String> counter = request.text("counter");
        OptionalLong until = request.number("until", 0);
        if (until.isPresent() && counter.isEmpty()) {
            throw new InvalidRequest("until needs a counter");
        }
        boolean unlocked = request.text("kind").equals(Optional.of("none"));
        return new LoopPlan(
                unlocked ? Optional.empty() : Optional.of(LockTarget.of(request)),
                Terms.of(request),
                Math.toIntExact(request.requiredNumber("owners", 1)),
                request.requiredNumber("millis", 1),
                request.flag("each"),
                request.number("hold_us", 0).orElse(0),
                counter,
                until);
    }

    Optional<LockTarget> targetOf(int owner) {
        return each ? target.map(common -> common.numbered(owner)) : target;
    }
}
