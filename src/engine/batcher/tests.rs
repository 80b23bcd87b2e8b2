use tokio::time::sleep;

use super::*;
use crate::{
    config::Config,
    engine::scripted::Scripted,
    observer::LockKind,
    owner::Identity,
    protocol::{ScriptArgs, Wish},
};

const TIMEOUT: Duration = Duration::from_secs(3);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn call() -> Invocation {
    let (_, settings) = Config::default().into_settings().unwrap();
    let args = ScriptArgs { lease: 1_000, not_after: 0 };
    let id = Identity::new().next();
    LockKind::Reentrant.protocol("l", &settings).acquire(&id, args, &Wish::default())
}

fn batcher(transport: &Arc<Scripted>) -> Batcher {
    Batcher::new(transport.clone(), ClientRuntime::current(), TIMEOUT)
}

fn granted() -> Answer {
    Ok(Reply::Nil)
}

/// By when the answer of each call was wanted, and how many calls were in it.
fn sent(transport: &Scripted) -> Vec<(Option<Instant>, usize)> {
    transport.calls.lock().unwrap().iter().map(|(call, by)| (*by, call.keys)).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_meet_are_sent_by_themselves_at_once() {
    let transport = Arc::new(Scripted::new((0..3).map(|_| granted())));
    let batcher = batcher(&transport);
    for _ in 0..2 {
        assert!(matches!(batcher.call(call(), Instant::now()).await, Ok(Reply::Nil)));
    }
    drop(batcher.call(call(), Instant::now()));
    let _next = batcher.call(call(), Instant::now());
    assert_eq!(sent(&transport), [(None, 1); 4], "none was queued");
}

#[tokio::test(start_paused = true)]
async fn calls_that_meet_another_are_sent_together_with_the_bound_of_the_first() {
    let transport = Arc::new(Scripted::default());
    let batcher = batcher(&transport);
    let begun = Instant::now();
    let _under_way: Vec<_> = (0..4).map(|_| batcher.call(call(), Instant::now())).collect();
    sleep(ms(1)).await;
    let _later = batcher.call(call(), Instant::now());
    sleep(ms(1)).await;
    let by = Some(begun + TIMEOUT);
    assert_eq!(sent(&transport)[..2], [(None, 1), (by, 3)]);
}

#[tokio::test(start_paused = true)]
async fn two_batches_are_under_way_and_a_third_only_when_they_take_long() {
    let transport = Arc::new(Scripted::default());
    let batcher = batcher(&transport);
    let mut under_way = vec![batcher.call(call(), Instant::now())];
    for _ in 0..4 {
        under_way.push(batcher.call(call(), Instant::now()));
        tokio::task::yield_now().await;
    }
    sleep(ms(1)).await;
    assert_eq!(sent(&transport).len(), 3, "one by itself and two batches");
    sleep(2 * GROW_FOR).await;
    assert_eq!(sent(&transport).iter().map(|(_, calls)| calls).sum::<usize>(), 5);
    under_way.push(batcher.call(call(), Instant::now()));
    sleep(ms(1)).await;
    assert_eq!(sent(&transport).iter().map(|(_, calls)| calls).sum::<usize>(), 6);
}

/// A runtime of several threads runs a new task right after the one that started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_tasks_that_are_ready_call_is_sent_together() {
    let transport = Arc::new(Scripted::default());
    let batcher = Arc::new(batcher(&transport));
    let on_the_worker = tokio::spawn(async move {
        for _ in 0..10 {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.call(call(), Instant::now()).await });
        }
    });
    on_the_worker.await.unwrap();
    sleep(ms(500)).await;
    let calls: Vec<_> = sent(&transport).into_iter().map(|(_, calls)| calls).collect();
    assert_eq!(calls, [1, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_bounded_and_each_call_has_its_own_answer() {
    let both = Reply::Array(vec![Reply::Nil, Reply::Int(70)]);
    let transport = Arc::new(Scripted::default());
    let batcher = batcher(&transport);
    let first = batcher.call(call(), Instant::now());
    transport.replies.lock().unwrap().push_back(Ok(both));
    let two = [batcher.call(call(), Instant::now()), batcher.call(call(), Instant::now())];
    let [one, other] = two.map(|under_way| async move { under_way.await.unwrap() });
    assert_eq!((one.await, other.await), (Reply::Nil, Reply::Int(70)));
    let _many: Vec<_> =
        (0..LARGEST_BATCH + 1).map(|_| batcher.call(call(), Instant::now())).collect();
    sleep(ms(1)).await;
    let calls: Vec<_> = sent(&transport).into_iter().map(|(_, calls)| calls).collect();
    assert_eq!(calls, [1, 2, LARGEST_BATCH, 1]);
    drop(first);
}

#[test]
fn what_the_queue_of_a_runtime_that_ends_holds_is_answered() {
    let new = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (there, here) = (new(), new());
    let transport = Arc::new(Scripted::default());
    let batcher = there.block_on(async { batcher(&transport) });
    let first = batcher.call(call(), Instant::now());
    let queue_one = || {
        let under_way = batcher.call(call(), Instant::now());
        there.block_on(tokio::task::yield_now());
        under_way
    };
    let queued: Vec<_> = (0..4).map(|_| queue_one()).collect();
    drop(there);
    let later = batcher.call(call(), Instant::now());
    here.block_on(async {
        for under_way in queued.into_iter().chain([later]) {
            let answer = timeout(Duration::from_secs(10), under_way).await;
            assert!(answer.expect("an answer").is_err());
        }
    });
    drop(first);
}

#[test]
fn an_error_of_a_batch_says_which_calls_may_succeed_by_themselves() {
    let said = |text: &str| Err(WireError::from_server(text));
    let alone = |answer: Answer| -> Vec<bool> {
        each(answer, 2).into_iter().map(|answer| answer.is_none()).collect()
    };
    assert_eq!(alone(said("LOADING")), [false, false]);
    assert_eq!(alone(said("TRYAGAIN multiple keys")), [true, true]);
    assert_eq!(alone(said("ERR odd")), [true, true]);
    assert_eq!(alone(Err(WireError::unanswered("late"))), [false, false]);
    let mixed =
        |text: &str| Ok(Reply::Array(vec![Reply::Nil, Reply::Bytes(text.to_owned().into())]));
    assert_eq!(alone(mixed("OOM no memory")), [false, true]);
    assert_eq!(alone(mixed("WRONGTYPE")), [false, false]);
    let too_many = Ok(Reply::Array(vec![Reply::Nil; 3]));
    assert!(
        each(too_many, 2)
            .iter()
            .all(|answer| { matches!(answer, Some(Err(WireError::Unanswered(_)))) })
    );
}

#[tokio::test]
async fn a_task_ends_with_the_queue() {
    let queue = Arc::new(Queue::default());
    queue.traffic().tasks = 1;
    let (answer, _answered) = oneshot::channel();
    queue.traffic().queued.push_back(Queued {
        call: call(),
        part: Part::Acquire,
        by: Instant::now(),
        answer,
    });
    let transport = Arc::new(Scripted::default());
    let runtime = ClientRuntime::current();
    let mut task = BatchTask { queue: queue.clone(), transport, runtime, counted: true };
    assert_eq!(task.next_batch().map(|batch| batch.len()), Some(1));
    assert!(task.next_batch().is_none() && !task.counted);
    drop(task);
    assert_eq!(queue.traffic().tasks, 0);
}
