package peer;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

/** Writes the history of this process: one line an event, at once, so that a kill loses nothing. */
final class Recorder implements AutoCloseable {
    static final Gson GSON = new GsonBuilder().serializeNulls().create();

    private final String process;
    private final FileOutputStream file;
    private final AtomicLong numbers = new AtomicLong();

    Recorder(String process, String path) throws IOException {
        this.process = process;
        this.file = new FileOutputStream(path);
        file.write("{\"history\":1}\n".getBytes(StandardCharsets.UTF_8));
    }

    /** For an operation or a guard. */
    long number() {
        return numbers.incrementAndGet();
    }

    void note(String event, JsonObject fields) {
        note(System.nanoTime(), event, fields); // CLOCK_MONOTONIC
    }

    void note(long at, String event, JsonObject fields) {
        JsonObject line = new JsonObject();
        line.addProperty("at", at);
        line.addProperty("process", process);
        line.addProperty("event", event);
        fields.entrySet().forEach(field -> line.add(field.getKey(), field.getValue()));
        byte[] bytes = (GSON.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (file) {
            try {
                file.write(bytes);
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        }
    }

    long invoke(String call, JsonObject fields) {
        long op = number();
        fields.addProperty("op", op);
        fields.addProperty("call", call);
        note("invoke", fields);
        return op;
    }

    void answer(long op, String answer, JsonObject fields) {
        fields.addProperty("op", op);
        fields.addProperty("answer", answer);
        note("answer", fields);
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
