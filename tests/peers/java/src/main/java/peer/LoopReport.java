package peer;

import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;

/** What a loop answers; the names of the fields are those of the answer. */
record LoopReport(
        long acquired,
        long refused,
        long errors,
        long counted,
        long torn,
        long overlaps,
        long minPerOwner,
        long maxPerOwner,
        Latencies.Summary acquireUs,
        Latencies.Summary releaseUs,
        Latencies.Summary turnUs,
        long cpuUs,
        List<OfOwner> perOwner,
        long reads,
        long writes,
        Latencies.Summary readUs,
        Latencies.Summary writeUs) {

    /** What one owner got. */
    record OfOwner(long acquired, Latencies.Summary acquireUs) {
        static OfOwner of(LoopOwner owner) {
            return new OfOwner(owner.acquired(), Latencies.summary(List.of(owner.reads(), owner.writes())));
        }
    }

    static LoopReport of(List<LoopOwner> owners, long cpuMicros) {
        LongSummaryStatistics perOwner = owners.stream().mapToLong(LoopOwner::acquired).summaryStatistics();
        return new LoopReport(
                perOwner.getSum(),
                sum(owners, LoopOwner::refused),
                sum(owners, LoopOwner::errors),
                sum(owners, LoopOwner::counted),
                sum(owners, LoopOwner::torn),
                sum(owners, LoopOwner::overlaps),
                perOwner.getMin(),
                perOwner.getMax(),
                Latencies.summary(owners.stream().flatMap(owner -> Stream.of(owner.reads(), owner.writes())).toList()),
                Latencies.summary(owners.stream().map(LoopOwner::releases).toList()),
                Latencies.summary(owners.stream().map(LoopOwner::turns).toList()),
                cpuMicros,
                owners.stream().map(OfOwner::of).toList(),
                sum(owners, owner -> owner.reads().count()),
                sum(owners, owner -> owner.writes().count()),
                Latencies.summary(owners.stream().map(LoopOwner::reads).toList()),
                Latencies.summary(owners.stream().map(LoopOwner::writes).toList()));
    }

    private static long sum(List<LoopOwner> owners, ToLongFunction<LoopOwner> number) {
        return owners.stream().mapToLong(number).sum();
    }
}
