package peer;

import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.function.ToLongFunction;

/** What a loop answers; the names of the fields are those of the answer. */
record LoopReport(
        long acquired,
        long refused,
        long errors,
        long counted,
        long minPerOwner,
        long maxPerOwner,
        Latencies.Summary acquireUs,
        Latencies.Summary releaseUs) {

    static LoopReport of(List<LoopOwner> owners) {
        LongSummaryStatistics perOwner = owners.stream().mapToLong(LoopOwner::acquired).summaryStatistics();
        return new LoopReport(
                perOwner.getSum(),
                sum(owners, LoopOwner::refused),
                sum(owners, LoopOwner::errors),
                sum(owners, LoopOwner::counted),
                perOwner.getMin(),
                perOwner.getMax(),
                Latencies.summary(owners.stream().map(LoopOwner::acquires).toList()),
                Latencies.summary(owners.stream().map(LoopOwner::releases).toList()));
    }

    private static long sum(List<LoopOwner> owners, ToLongFunction<LoopOwner> number) {
        return owners.stream().mapToLong(number).sum();
    }
}
