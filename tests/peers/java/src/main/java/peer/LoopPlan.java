package peer;

import java.util.Optional;
import java.util.OptionalLong;

/**
 * What a loop is to do. No target: the owners take no lock at all. With a write percentage, each turn takes the write lock with
 * that probability, or else the read lock.
 */
record LoopPlan(
        Optional<LockTarget> target,
        OptionalLong writePercent,
        Terms terms,
        int owners,
        long millis,
        boolean each,
        long holdMicros,
        Optional<String> counter,
        OptionalLong until,
        Optional<String> room) {

    static LoopPlan of(Request request) {
        Optional<String> counter = request.text("counter");
        OptionalLong until = request.number("until", 0);
        if (until.isPresent() && counter.isEmpty()) {
            throw new InvalidRequest("until needs a counter");
        }
        Optional<String> kind = request.text("kind");
        boolean unlocked = kind.equals(Optional.of("none"));
        OptionalLong writePercent = request.number("write_percent", 0);
        if (writePercent.isPresent() != kind.equals(Optional.of("read_write")) || writePercent.orElse(0) > 100) {
            throw new InvalidRequest("write_percent is for the kind read_write, and from 0 to 100");
        }
        Optional<String> room = request.text("room");
        if (room.isPresent() && (kind.equals(Optional.of("read")) || kind.equals(Optional.of("read_write")))) {
            throw new InvalidRequest("a room is for one at a time, which readers are not");
        }
        return new LoopPlan(
                unlocked ? Optional.empty() : Optional.of(LockTarget.of(request)),
                writePercent,
                Terms.of(request),
                Math.toIntExact(request.requiredNumber("owners", 1)),
                request.requiredNumber("millis", 1),
                request.flag("each"),
                request.number("hold_us", 0).orElse(0),
                counter,
                until,
                room);
    }

    Optional<LockTarget> targetOf(int owner) {
        return each ? target.map(common -> common.numbered(owner)) : target;
    }
}
