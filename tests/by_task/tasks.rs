//! The Rust code of `docs/redisson-by-task.md`, in its order. A test compares the two.

use std::time::Duration;

use redisson_lock::{
    Access, Client, Config, Error, ExpirablePermit, FencedGuard, Lock, LockGuard, Loss, MultiLock,
    Owner, Remaining, RunError, SegmentGuard, blocking,
};

pub(crate) async fn connect(file: &str) -> Result<Client, Box<dyn std::error::Error>> {
    let yaml = std::fs::read_to_string(file)?;
    Ok(Client::connect(Config::from_redisson_yaml(&yaml)?).await?)
}

pub(crate) async fn shut_down(client: Client) -> Result<(), Error> {
    client.close().await // waits for the releases of dropped guards
}

pub(crate) async fn around_a_call<E>(
    client: &Client,
    pay: impl Future<Output = Result<u64, E>>,
) -> Result<Result<u64, RunError<u64, E>>, Error> {
    let guard = client.lock("order:42").lock().await?;
    Ok(guard.run(pay).await)
}

pub(crate) async fn wait_three_seconds(lock: &Lock) -> Result<bool, Error> {
    let Some(guard) = lock.try_lock().wait(Duration::from_secs(3)).await? else {
        return Ok(false); // busy
    };
    // the work
    guard.unlock().await?;
    Ok(true)
}

pub(crate) async fn with_a_lease(lock: &Lock) -> Result<Option<LockGuard>, Error> {
    lock.lock().lease(Duration::from_secs(10)).await?.unlock().await?;
    lock.try_lock().wait(Duration::from_secs(3)).lease(Duration::from_secs(10)).await
}

pub(crate) async fn outer(lock: &Lock, me: &mut Owner) -> Result<u32, Error> {
    let guard = lock.lock().by(me).await?;
    let count = inner(lock, me).await?;
    guard.unlock().await?;
    Ok(count)
}

pub(crate) async fn inner(lock: &Lock, me: &mut Owner) -> Result<u32, Error> {
    let guard = lock.lock().by(me).await?;
    let count = guard.hold_count(); // getHoldCount(): 2
    guard.unlock().await?;
    Ok(count)
}

pub(crate) async fn reenter(client: &Client) -> Result<u32, Error> {
    let mut me = client.owner();
    outer(&client.lock("order:42"), &mut me).await
}

pub(crate) async fn write_then_read(client: &Client) -> Result<LockGuard, Error> {
    let catalog = client.read_write_lock("catalog");
    let mut me = client.owner();
    let writing = catalog.write().by(&mut me).await?;
    let reading = catalog.read().by(&mut me).await?;
    writing.unlock().await?;
    Ok(reading)
}

pub(crate) async fn in_order(client: &Client) -> Result<LockGuard, Error> {
    client.fair_lock("ticket").lock().await
}

pub(crate) async fn with_a_token(client: &Client) -> Result<(u64, FencedGuard), Error> {
    let guard = client.fenced_lock("ledger").lock().await?;
    // With each write the token and `guard.holder()`: WHERE token < ?1 OR (token = ?1 AND holder = ?2)
    Ok((guard.token().value(), guard))
}

pub(crate) async fn all_or_none(client: &Client) -> Result<(), Error> {
    let both = MultiLock::all([client.lock("order:42"), client.lock("item:7")]);
    let guard = both.lock().await?;
    // the work
    guard.unlock().await
}

pub(crate) async fn most_of_several_servers(servers: &[Client]) -> Result<bool, Error> {
    let nightly = MultiLock::majority(servers.iter().map(|server| server.lock("nightly")));
    let Some(guard) = nightly.try_lock().wait(Duration::from_secs(3)).await? else {
        return Ok(false);
    };
    guard.unlock().await?;
    Ok(true)
}

pub(crate) async fn at_most_ten(client: &Client) -> Result<bool, Error> {
    let pool = client.semaphore("pool");
    pool.try_set(10).await?;
    let Some(permit) = pool.try_acquire(2).wait(Duration::from_secs(3)).await? else {
        return Ok(false); // fewer than two were free
    };
    // the work
    permit.release().await?;
    Ok(true)
}

pub(crate) async fn ten_with_leases(client: &Client) -> Result<ExpirablePermit, Error> {
    let calls = client.expirable_semaphore("calls");
    calls.try_set(10).await?;
    calls.acquire(1).lease(Duration::from_secs(60)).await // without a lease it is renewed
}

pub(crate) async fn wait_for_three(client: &Client) -> Result<bool, Error> {
    let ready = client.count_down_latch("ready:7");
    ready.try_set(3).await?;
    ready.wait_timeout(Duration::from_secs(30)).await
}

pub(crate) async fn i_am_ready(client: &Client) -> Result<(), Error> {
    client.count_down_latch("ready:7").count_down().await
}

pub(crate) async fn any_of_four(client: &Client) -> Result<SegmentGuard, Error> {
    client.segmented("stock:42", 4).any().lock().await // guard.segment(): which
}

pub(crate) async fn that_of_a_key(client: &Client, customer: &str) -> Result<LockGuard, Error> {
    client.segmented("stock:42", 4).of(customer).lock().await
}

pub(crate) async fn beside_set_nx(client: &Client) -> Result<LockGuard, Error> {
    client.plain_lock("import").lock().await
}

pub(crate) async fn do_i_have_it(guard: &LockGuard) -> Result<bool, Error> {
    if !guard.is_held() {
        return Ok(false);
    }
    match guard.check().await {
        Ok(()) => Ok(true),
        Err(Error::NotHeld { .. }) => Ok(false),
        Err(error) => Err(error), // no answer, for example
    }
}

pub(crate) async fn until_lost(
    guard: &LockGuard,
    work: impl Future<Output = u64>,
) -> Result<u64, Loss> {
    tokio::select! {
        why = guard.lost() => Err(why),
        done = work => Ok(done),
    }
}

pub(crate) async fn who_has_it(lock: &Lock) -> Result<(Option<Duration>, Vec<String>), Error> {
    let left = match lock.ttl().await? {
        Remaining::Free => None,
        Remaining::Held(left) => Some(left),
        Remaining::WithoutExpiry => Some(Duration::MAX),
    };
    let inspection = lock.inspect().await?;
    let exclusive = inspection.holders.into_iter().filter(|one| one.access == Access::Exclusive);
    Ok((left, exclusive.map(|holder| holder.id).collect()))
}

pub(crate) async fn by_force(lock: &Lock) -> Result<bool, Error> {
    match lock.inspect().await?.holders.first() {
        Some(seen) => lock.force_unlock_if(&seen.id).await,
        None => Ok(false), // it is free
    }
}

pub(crate) async fn ask_for_it(lock: &Lock) -> Result<Option<LockGuard>, Error> {
    let heard = lock.ask_to_release().await?.is_heard();
    println!("the holder {}", if heard { "was asked" } else { "does not listen" });
    lock.try_lock().wait(Duration::from_secs(10)).await
}

pub(crate) async fn until_asked_for(
    guard: LockGuard,
    work: impl Future<Output = ()>,
) -> Result<(), Error> {
    tokio::select! {
        () = guard.asked_to_release() => {}
        () = work => {}
    }
    guard.unlock().await
}

pub(crate) async fn release_elsewhere(lock: &Lock) -> Result<(), Box<dyn std::error::Error>> {
    let guard = lock.lock().await?;
    let other = tokio::spawn(async move {
        // the work
        guard.unlock().await
    });
    other.await??;
    Ok(())
}

pub(crate) async fn cancelled_after(
    lock: &Lock,
    time: Duration,
    work: impl Future<Output = u64>,
) -> Result<Option<u64>, Error> {
    let locked = async { lock.lock().await?.while_held(work).await };
    // When the time is over, the wait, the work or the hold ends.
    tokio::time::timeout(time, locked).await.ok().transpose()
}

pub(crate) async fn interrupt(lock: &Lock) -> bool {
    let lock = lock.clone();
    let waiting = tokio::spawn(lock.lock().into_future());
    waiting.abort();
    waiting.await.is_err_and(|error| error.is_cancelled())
}

pub(crate) async fn on_a_timer<F: Future<Output = Result<(), Error>>>(
    lock: &Lock,
    every: Duration,
    mut job: impl FnMut() -> F,
) {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        match lock.try_lock().await {
            Ok(Some(guard)) => match guard.run(job()).await {
                Ok(()) => {}
                Err(error) => eprintln!("the job: {error}"), // the next tick tries again
            },
            Ok(None) => {} // another instance does it
            Err(error) => eprintln!("the lock: {error}"),
        }
    }
}

pub(crate) fn without_async(
    lock: &blocking::Lock,
    work: impl FnOnce() -> u64,
) -> Result<u64, Error> {
    let guard = lock.lock().run()?;
    let done = guard.while_held(work)?;
    guard.unlock()?;
    Ok(done)
}
