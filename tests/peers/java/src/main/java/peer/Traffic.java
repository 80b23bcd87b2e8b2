package peer;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/** Users that take locks by a seed, and write down what they see. */
final class Traffic {
    private static final long BEAT_NANOS = TimeUnit.MILLISECONDS.toNanos(2);
    private static final long USUAL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

    /** How users behave. */
    enum Mood { WILD, CALM, REST }

    private final RedissonClient client;
    private volatile Mood mood = Mood.WILD;

    Traffic(RedissonClient client) {
        this.client = client;
    }

    void set(Mood mood) {
        this.mood = mood;
    }

    Mood mood() {
        return mood;
    }

    /** Runs until the mood is {@link Mood#REST}, then closes the client. */
    Object run(JsonElement fields) throws Exception {
        TrafficPlan plan = new GsonBuilder()
                .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
                .create()
                .fromJson(fields, TrafficPlan.class);
        try (Recorder recorder = new Recorder(plan.process(), plan.file())) {
            JsonObject start = new JsonObject();
            start.addProperty("client", client.getId());
            start.addProperty("redisson", true);
            start.add("policy", plan.policy());
            recorder.note("start", start);
            Thread pulse = new Thread(() -> watch(recorder), "pulse");
            pulse.setDaemon(true);
            pulse.start();
            List<Thread> users = new ArrayList<>();
            for (int number = 0; number < plan.workers(); number++) {
                TrafficUser user = new TrafficUser(number, plan, new Locks(client), client.getId(), recorder, this);
                Thread thread = new Thread(user::run, "user" + number);
                thread.start();
                users.add(thread);
            }
            for (Thread user : users) {
                user.join();
            }
            long op = recorder.invoke("close", new JsonObject());
            client.shutdown();
            recorder.answer(op, "done", new JsonObject());
            pulse.interrupt();
            pulse.join();
        }
        return Map.of();
    }

    /** Writes down each time in which this process should have run and did not. */
    private static void watch(Recorder recorder) {
        try {
            while (true) {
                long before = System.nanoTime();
                TimeUnit.NANOSECONDS.sleep(BEAT_NANOS);
                long after = System.nanoTime();
                if (after - before > BEAT_NANOS + USUAL_NANOS) {
                    recorder.note(before + BEAT_NANOS, "pause", new JsonObject());
                    recorder.note(after, "resume", new JsonObject());
                }
            }
        } catch (InterruptedException over) {
            // as it should be
        }
    }
}
