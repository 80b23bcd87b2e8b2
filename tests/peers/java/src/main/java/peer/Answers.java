package peer;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/** Writes answers, one whole line at a time, from any thread. */
final class Answers {
    private final PrintStream out;
    private final Gson gson = new GsonBuilder()
            .serializeNulls()
            .disableHtmlEscaping()
            .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
            .create();

    Answers(PrintStream out) {
        this.out = new PrintStream(out, false, StandardCharsets.UTF_8);
    }

    /** Started when an operation starts. */
    static final class Stopwatch {
        private final long start = System.nanoTime();

        private Timing stop() {
            // In this order: `at` less `us` is never later than the operation was begun.
            long epochMicros = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
            return new Timing((System.nanoTime() - start) / 1_000, epochMicros);
        }
    }

    /** How long an operation took, and when it ended. */
    private record Timing(long micros, long epochMicros) {
        void stamp(JsonObject answer) {
            answer.addProperty("us", micros);
            answer.addProperty("at", epochMicros);
        }
    }

    void success(JsonElement id, Object value, Stopwatch stopwatch) {
        Timing timing = stopwatch.stop();
        JsonObject answer = new JsonObject();
        answer.add("id", id);
        answer.addProperty("ok", true);
        answer.add("value", gson.toJsonTree(value));
        timing.stamp(answer);
        write(answer);
    }

    void failure(JsonElement id, Throwable failure, Stopwatch stopwatch) {
        Timing timing = stopwatch.stop();
        JsonObject answer = new JsonObject();
        answer.add("id", id);
        answer.addProperty("ok", false);
        answer.addProperty("error", ErrorCode.of(failure).wireName());
        answer.addProperty("message", failure instanceof PeerException ? failure.getMessage() : failure.toString());
        timing.stamp(answer);
        write(answer);
    }

    private void write(JsonObject answer) {
        String line = gson.toJson(answer) + "\n";
        synchronized (out) {
            out.print(line);
            out.flush();
        }
    }
}
