"""A test peer on the Lock of redis-py: `tests/peers/run python --redis URL`.

It speaks what tests/peers/README.md describes, as far as a plain lock goes. An owner is a thread.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time

import redis
from redis.exceptions import LockError

# Redisson's watchdog timeout: what a service sets that cannot renew.
DEFAULT_LEASE = 30.0


class Refused(Exception):
    def __init__(self, error, message):
        super().__init__(message)
        self.error = error


class Owner:
    """One thread, which runs what it is given in order."""

    def __init__(self, peer):
        self.peer = peer
        self.locks = {}
        self.tasks = queue.Queue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while (request := self.tasks.get()) is not None:
            self.peer.answer(request, self.perform)

    def perform(self, request):
        name, op = request["name"], request["op"]
        if op in ("lock", "try_lock"):
            if name in self.locks:
                raise Refused("would_deadlock", "redis-py's lock cannot be re-entered")
            lock = self.peer.lock(name, request)
            wait = request.get("wait_ms", 0) / 1000 if op == "try_lock" else None
            granted = lock.acquire(blocking=wait != 0, blocking_timeout=wait)
            if granted:
                self.locks[name] = lock
            return granted
        if op == "unlock":
            if name not in self.locks:
                raise Refused("not_held", "nothing to release")
            try:
                self.locks.pop(name).release()
            except LockError as error:
                raise Refused("not_held", str(error)) from error
            return None
        if op == "is_held":
            return name in self.locks and self.locks[name].owned()
        return self.peer.perform(request)


class Peer:
    def __init__(self, url, counters):
        self.redis = redis.Redis.from_url(url)
        self.counters = redis.Redis.from_url(counters)
        self.owners = {}
        self.output = threading.Lock()

    def lock(self, name, request):
        lease = request.get("lease_ms")
        # lease_ms 0: a lock without a TTL, as redis-py makes it by default.
        timeout = DEFAULT_LEASE if lease is None else lease / 1000 or None
        return self.redis.lock(name, timeout=timeout, sleep=0.05, thread_local=False)

    def answer(self, request, perform):
        begun = time.monotonic()
        answer = {"id": request.get("id")}
        try:
            answer.update(ok=True, value=perform(request))
        except Refused as refused:
            answer.update(ok=False, error=refused.error, message=str(refused))
        except redis.RedisError as error:
            answer.update(ok=False, error="redis", message=str(error))
        except Exception as error:  # a mistake of the test or of this program
            answer.update(ok=False, error="invalid", message=repr(error))
        answer.update(us=int((time.monotonic() - begun) * 1e6), at=time.time_ns() // 1000)
        with self.output:
            print(json.dumps(answer), flush=True)

    def perform(self, request):
        op = request["op"]
        if op == "hello":
            return {"impl": "redis-py", "version": redis.__version__, "client": ""}
        if op == "is_locked":
            return bool(self.redis.exists(request["name"]))
        if op == "remaining_ms":
            return self.redis.pttl(request["name"])
        if op == "force_unlock":
            return bool(self.redis.delete(request["name"]))
        if op == "loop":
            return self.loop(request)
        raise Refused("invalid", f"unknown op {op}")

    def loop(self, request):
        end = time.monotonic() + request["millis"] / 1000
        tallies = [dict(acquired=0, refused=0, errors=0, counted=0) for _ in range(request["owners"])]
        threads = [threading.Thread(target=self.turns, args=(request, end, tally)) for tally in tallies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report = {key: sum(tally[key] for tally in tallies) for key in tallies[0]}
        acquired = [tally["acquired"] for tally in tallies]
        return report | {"min_per_owner": min(acquired), "max_per_owner": max(acquired)}

    def turns(self, request, end, tally):
        counter, until = request.get("counter"), request.get("until")
        lock = self.lock(request["name"], request)
        while (left := end - time.monotonic()) > 0:
            try:
                if not lock.acquire(blocking_timeout=left):
                    tally["refused"] += 1
                    continue
                tally["acquired"] += 1
                count = int(self.counters.get(counter) or 0) if counter else 0
                done = until is not None and count >= until
                if counter and not done:
                    self.counters.set(counter, count + 1)
                    tally["counted"] += 1
                time.sleep(request.get("hold_us", 0) / 1e6)
                lock.release()
                if done:
                    return
            except (LockError, redis.RedisError):
                tally["errors"] += 1

    def serve(self):
        for line in sys.stdin:
            if not line.strip():
                continue
            request = json.loads(line)
            if request["op"] == "close":
                for owner in self.owners.values():
                    owner.tasks.put(None)
                for owner in self.owners.values():
                    owner.thread.join(10)
                self.answer(request, lambda _: None)
                os._exit(0)
            if "owner" in request and request["op"] != "loop":
                owner = self.owners.get(request["owner"]) or self.owners.setdefault(request["owner"], Owner(self))
                owner.tasks.put(request)
            else:
                threading.Thread(target=self.answer, args=(request, self.perform), daemon=True).start()
        os._exit(0)  # a crash: nothing is released


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--redis", required=True)
    options.add_argument("--counters")
    given = options.parse_args()
    Peer(given.redis, given.counters or given.redis).serve()


main()
