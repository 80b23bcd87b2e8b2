package peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import peer.Answers.Stopwatch;

/** Reads requests, gives each to the thread it belongs to, and sees that each is answered. */
final class Peer {
    /** At close, queued requests get this long before the acquisitions among them are dropped. */
    private static final long CLOSE_GRACE_MILLIS = 1_000;
    private static final long CLOSE_LIMIT_MILLIS = 10_000;
    private static final Set<String> OWNER_NEEDED = Set.of("lock", "try_lock", "unlock", "is_held", "hold_count", "cancel");

    private final RedissonClient client;
    private final Counters counters;
    private final Answers answers;
    private final Locks locks;
    private final Operations operations;
    private final Synchronizers synchronizers;
    private final Traffic traffic;
    private final Map<String, Owner> owners = new ConcurrentHashMap<>();
    private final Map<Loop, Boolean> loops = new ConcurrentHashMap<>();
    /** For requests of no owner. */
    private final ExecutorService anyThread = Executors.newCachedThreadPool(Peer::daemon);
    private boolean closing;

    Peer(RedissonClient client, Counters counters, Answers answers) {
        this.client = client;
        this.counters = counters;
        this.answers = answers;
        this.locks = new Locks(client);
        this.operations = new Operations(client);
        this.synchronizers = new Synchronizers(client);
        this.traffic = new Traffic(client);
    }

    void serve(InputStream requests) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!line.isBlank()) {
                serve(line);
            }
        }
        if (!closing) {
            Runtime.getRuntime().halt(0); // a crash: nothing is released
        }
    }

    private void serve(String line) {
        JsonElement id = JsonNull.INSTANCE;
        try {
            Request request = Request.parse(line);
            id = request.id();
            dispatch(request);
        } catch (RuntimeException failure) {
            answers.failure(id, failure, new Stopwatch());
        }
    }

    private void dispatch(Request request) {
        if (closing) {
            throw new PeerException(ErrorCode.CLOSED, "the peer is closing");
        }
        String op = request.op();
        if (OWNER_NEEDED.contains(op) && request.owner().isEmpty()) {
            throw new InvalidRequest(op + " needs an owner");
        }
        switch (op) {
            case "lock", "try_lock" -> acquire(request, owner(request));
            case "cancel" -> cancel(request, owner(request));
            case "loop" -> loop(request);
            case "traffic" -> anyThread.execute(() -> answer(request, () -> traffic.run(request.json("plan"))));
            case "calm" -> change(request, Traffic.Mood.CALM);
            case "rest" -> change(request, Traffic.Mood.REST);
            case "close" -> close(request);
            default -> perform(request);
        }
    }

    private void acquire(Request request, Owner owner) {
        Acquisition acquisition = owner.newAcquisition();
        owner.run(() -> {
            ErrorCode error = answer(request, () -> acquisition.run(() -> acquireNow(request, owner)));
            acquisition.end().complete(error == ErrorCode.CANCELLED);
        });
    }

    private Object acquireNow(Request request, Owner owner) throws InterruptedException {
        if (Synchronizers.areMeantBy(request)) {
            return synchronizers.acquire(request);
        }
        return Operations.acquire(request, owner.get(request));
    }

    /** Answered after the acquisitions it drops, when it is known whether the lock was granted first. */
    private void cancel(Request request, Owner owner) {
        Stopwatch stopwatch = new Stopwatch();
        List<Acquisition> dropped = owner.dropAcquisitions(ErrorCode.CANCELLED);
        CompletableFuture.allOf(dropped.stream().map(Acquisition::end).toArray(CompletableFuture[]::new))
                .thenRun(() -> answers.success(request.id(), dropped.stream().anyMatch(one -> one.end().join()), stopwatch));
    }

    private void loop(Request request) {
        Loop loop = new Loop(LoopPlan.of(request), locks, counters);
        loops.put(loop, true);
        anyThread.execute(() -> {
            answer(request, loop::run);
            loops.remove(loop);
        });
    }

    private void change(Request request, Traffic.Mood mood) {
        answer(request, () -> {
            traffic.set(mood);
            return null;
        });
    }

    private void perform(Request request) {
        Optional<Owner> owner = request.owner().map(name -> owner(request));
        LockSource source = owner.isPresent() ? owner.get() : this::freshLock;
        Runnable task = () -> answer(request, () -> performNow(request, source));
        owner.ifPresentOrElse(one -> one.run(task), () -> anyThread.execute(task));
    }

    private Object performNow(Request request, LockSource source) {
        if (Synchronizers.areMeantBy(request)) {
            return synchronizers.perform(request);
        }
        return operations.perform(request, source);
    }

    private void close(Request request) {
        closing = true;
        Stopwatch stopwatch = new Stopwatch();
        new Thread(() -> {
            try {
                finishQueued();
                client.shutdown();
                counters.close();
                answers.success(request.id(), null, stopwatch);
            } catch (Exception failure) {
                answers.failure(request.id(), failure, stopwatch);
            }
            System.exit(0);
        }, "close").start();
    }

    private void finishQueued() throws InterruptedException {
        loops.keySet().forEach(Loop::stop);
        owners.values().forEach(Owner::acceptNoMore);
        anyThread.shutdown();

        long grace = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(CLOSE_GRACE_MILLIS);
        for (Owner owner : owners.values()) {
            if (!owner.awaitIdle(millisUntil(grace))) {
                owner.dropAcquisitions(ErrorCode.CLOSED);
            }
        }
        long limit = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(CLOSE_LIMIT_MILLIS);
        for (Owner owner : owners.values()) {
            owner.awaitIdle(millisUntil(limit));
        }
        anyThread.awaitTermination(millisUntil(limit), TimeUnit.MILLISECONDS);
    }

    /** Carries out and answers; gives the error answered, or null. */
    private ErrorCode answer(Request request, Callable<Object> operation) {
        Stopwatch stopwatch = new Stopwatch();
        try {
            answers.success(request.id(), operation.call(), stopwatch);
            return null;
        } catch (Exception failure) {
            answers.failure(request.id(), failure, stopwatch);
            return ErrorCode.of(failure);
        }
    }

    private Owner owner(Request request) {
        return owners.computeIfAbsent(request.requiredText("owner"), name -> new Owner(name, locks));
    }

    private RLock freshLock(Request request) {
        return locks.get(LockTarget.of(request));
    }

    private static long millisUntil(long nanoTime) {
        return Math.max(0, TimeUnit.NANOSECONDS.toMillis(nanoTime - System.nanoTime()));
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }
}
