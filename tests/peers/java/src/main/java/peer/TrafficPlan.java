package peer;

import com.google.gson.JsonElement;
import java.util.List;
import java.util.Set;

/** What traffic is to be like: see {@code tests/peers/rust/src/traffic}. Futures are not cut here, and nothing is freed by force. */
record TrafficPlan(
        String process,
        long seed,
        String file,
        JsonElement policy,
        int workers,
        List<Place> places,
        int leasePercent,
        int ownerPercent,
        long holdMs,
        long leaseMs,
        long pauseMs) {

    private static final Set<String> KINDS = Set.of("lock", "fair", "read", "write");

    /** A lock; the fields are those of the history. */
    record Place(String server, String name, String kind) {
    }

    List<Place> known() {
        return places.stream().filter(place -> KINDS.contains(place.kind())).toList();
    }
}
