package peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import peer.Traffic.Mood;
import peer.TrafficPlan.Place;

/** A user. After an error Redisson may hold for its thread what it does not know of, so the user goes on as another thread. */
final class TrafficUser {
    private final int number;
    private final TrafficPlan plan;
    private final List<Place> places;
    private final Locks locks;
    private final String client;
    private final Recorder recorder;
    private final Traffic traffic;
    private final Random random;
    private int lives;
    private int next;
    private volatile boolean failed;

    TrafficUser(int number, TrafficPlan plan, Locks locks, String client, Recorder recorder, Traffic traffic) {
        this.number = number;
        this.plan = plan;
        this.places = plan.known();
        this.locks = locks;
        this.client = client;
        this.recorder = recorder;
        this.traffic = traffic;
        this.random = new Random(plan.seed() * 31 + number);
        this.next = number;
    }

    void run() {
        while (traffic.mood() != Mood.REST && !places.isEmpty()) {
            lives++;
            failed = false;
            Thread life = new Thread(this::live, "user" + number + "." + lives);
            life.start();
            try {
                life.join();
            } catch (InterruptedException over) {
                return;
            }
        }
    }

    private void live() {
        try {
            while (!failed && traffic.mood() != Mood.REST) {
                boolean calm = traffic.mood() != Mood.WILD;
                Place place = places.get(calm ? next++ % places.size() : random.nextInt(places.size()));
                OptionalLong lease = !calm && random.nextInt(100) < plan.leasePercent()
                        ? OptionalLong.of(100 + someMillis(plan.leaseMs()))
                        : OptionalLong.empty();
                OptionalLong wait = calm || random.nextInt(10) < 4
                        ? OptionalLong.empty()
                        : OptionalLong.of(random.nextBoolean() ? 0 : someMillis(3_000));
                hold(place, wait, lease, calm);
                restFor(calm ? 20 : someMillis(plan.pauseMs()));
            }
        } catch (InterruptedException over) {
            failed = true;
        }
    }

    /** Takes a lock, perhaps twice, works, and gives it back. */
    private void hold(Place place, OptionalLong wait, OptionalLong lease, boolean calm) throws InterruptedException {
        RLock lock = locks.get(new LockTarget(place.kind(), List.of(place.name())));
        long outer = take(lock, place, wait, lease);
        if (outer == 0) {
            return;
        }
        restFor(calm ? 5 : someMillis(plan.holdMs()));
        long inner = 0;
        if (!calm && random.nextInt(100) < plan.ownerPercent() / 2) {
            inner = take(lock, place, wait, lease);
            if (inner != 0) {
                restFor(someMillis(plan.holdMs()));
            }
        }
        if (inner != 0 && !failed) {
            giveBack(lock, inner);
        }
        if (!failed) {
            giveBack(lock, outer);
        }
    }

    /** The number of the guard, or 0. */
    private long take(RLock lock, Place place, OptionalLong wait, OptionalLong lease) throws InterruptedException {
        long guard = recorder.number();
        JsonObject call = new JsonObject();
        call.addProperty("guard", guard);
        JsonArray of = new JsonArray();
        of.add(Recorder.GSON.toJsonTree(place));
        call.add("locks", of);
        call.addProperty("rule", "one");
        call.addProperty("owner", "t" + number + "." + lives);
        addMillis(call, "lease", lease);
        addMillis(call, "wait", wait);
        long op = recorder.invoke("acquire", call);
        boolean taken;
        try {
            Terms terms = new Terms(wait, lease);
            if (wait.isPresent()) {
                taken = terms.tryLock(lock);
            } else {
                terms.lock(lock);
                taken = true;
            }
        } catch (RuntimeException failure) {
            failed(op, failure);
            return 0;
        }
        if (!taken) {
            recorder.answer(op, "refused", new JsonObject());
            return 0;
        }
        JsonObject held = new JsonObject();
        held.addProperty("place", 0);
        String id = client + ":" + Thread.currentThread().getId();
        held.addProperty("id", place.kind().equals("write") ? id + ":write" : id);
        JsonArray holds = new JsonArray();
        holds.add(held);
        JsonObject answer = new JsonObject();
        answer.add("holds", holds);
        answer.add("token", JsonNull.INSTANCE);
        answer.add("acknowledged", JsonNull.INSTANCE);
        answer.addProperty("remaining", 0);
        answer.addProperty("count", 1);
        recorder.answer(op, "granted", answer);
        return guard;
    }

    private void giveBack(RLock lock, long guard) {
        JsonObject call = new JsonObject();
        call.addProperty("guard", guard);
        long op = recorder.invoke("unlock", call);
        try {
            lock.unlock();
            recorder.answer(op, "done", new JsonObject());
        } catch (IllegalMonitorStateException lost) {
            JsonObject why = new JsonObject();
            why.addProperty("why", "unknown");
            recorder.answer(op, "not_held", why);
            failed = true;
        } catch (RuntimeException failure) {
            failed(op, failure);
        }
    }

    private void failed(long op, RuntimeException failure) {
        failed = true;
        JsonObject code = new JsonObject();
        code.addProperty("code", ErrorCode.of(failure) == ErrorCode.NOT_REPLICATED ? "not_replicated" : "redis");
        recorder.answer(op, "error", code);
    }

    private void restFor(long millis) throws InterruptedException {
        Mood mood = traffic.mood();
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        for (long left = until - System.nanoTime(); left > 0 && traffic.mood() == mood; left = until - System.nanoTime()) {
            TimeUnit.NANOSECONDS.sleep(Math.min(left, TimeUnit.MILLISECONDS.toNanos(100)));
        }
    }

    /** Short times as often as long ones. */
    private long someMillis(long most) {
        return (long) Math.exp(random.nextDouble() * Math.log(Math.max(1, most)));
    }

    private static void addMillis(JsonObject fields, String name, OptionalLong millis) {
        if (millis.isPresent()) {
            fields.addProperty(name, TimeUnit.MILLISECONDS.toNanos(millis.getAsLong()));
        } else {
            fields.add(name, JsonNull.INSTANCE);
        }
    }
}
