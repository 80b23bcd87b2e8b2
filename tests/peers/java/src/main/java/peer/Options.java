package peer;

import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** The command line. An absent option is null or empty. */
record Options(
        String yaml,
        String redis,
        List<String> cluster,
        List<String> sentinels,
        String master,
        String counters,
        OptionalLong watchdogMillis,
        OptionalLong fairWaitMillis,
        Optional<Boolean> replicasConfirm,
        String prefix) {

    static Options parse(String[] args) {
        String yaml = null;
        String redis = null;
        List<String> cluster = List.of();
        List<String> sentinels = List.of();
        String master = null;
        String counters = null;
        OptionalLong watchdog = OptionalLong.empty();
        OptionalLong fairWait = OptionalLong.empty();
        Optional<Boolean> replicasConfirm = Optional.empty();
        String prefix = null;

        for (int i = 0; i < args.length; i += 2) {
            String option = args[i];
            if (i + 1 == args.length) {
                throw new InvalidRequest(option + " needs a value");
            }
            String value = args[i + 1];
            switch (option) {
                case "--yaml" -> yaml = value;
                case "--redis" -> redis = value;
                case "--cluster" -> cluster = addresses(value);
                case "--sentinel" -> sentinels = addresses(value);
                case "--master" -> master = value;
                case "--counters" -> counters = value;
                case "--watchdog-ms" -> watchdog = millis(option, value);
                case "--fair-wait-ms" -> fairWait = millis(option, value);
                case "--replicas" -> replicasConfirm = Optional.of(confirm(value));
                case "--prefix" -> prefix = value;
                default -> throw new InvalidRequest("unknown option " + option);
            }
        }
        if (yaml == null && redis == null && cluster.isEmpty() && sentinels.isEmpty()) {
            throw new InvalidRequest("one of --yaml, --redis, --cluster, --sentinel is needed");
        }
        if (!sentinels.isEmpty() && master == null) {
            throw new InvalidRequest("--sentinel needs --master");
        }
        return new Options(yaml, redis, cluster, sentinels, master, counters, watchdog, fairWait, replicasConfirm, prefix);
    }

    /** Those of a client for the counters alone; nothing when they are with the locks. */
    Optional<Options> ofCounters() {
        return Optional.ofNullable(counters).map(url ->
                new Options(null, url, List.of(), List.of(), null, null, OptionalLong.empty(), OptionalLong.empty(), Optional.empty(), prefix));
    }

    private static List<String> addresses(String hostsAndPorts) {
        return List.of(hostsAndPorts.split(",")).stream()
                .map(address -> address.contains("://") ? address : "redis://" + address)
                .toList();
    }

    private static boolean confirm(String replicas) {
        return switch (replicas) {
            case "none" -> false;
            case "all" -> true;
            default -> throw new InvalidRequest("--replicas needs none or all, not " + replicas);
        };
    }

    private static OptionalLong millis(String option, String value) {
        try {
            return OptionalLong.of(Long.parseLong(value));
        } catch (NumberFormatException notANumber) {
            throw new InvalidRequest(option + " needs a number, not " + value);
        }
    }
}
