//! What is said at the end of a wait for all of several locks: held by another, or no answer.

use std::iter::repeat_n;

use tokio::time::sleep;

use super::{
    Fault, LOCK, Sim,
    bounds::{COMMAND, ends_within, hangs},
    ms,
    multi::{left, locks, sims, worlds_in_order},
    silent_servers::{falls_silent, is_slow},
};
use crate::{Error, MultiGuard, MultiLock};

/// The answer to a try that waits for so many ms, while something else goes on.
async fn answer_meanwhile(
    multi: &MultiLock,
    wait: u64,
    meanwhile: impl Future<Output = ()>,
) -> Result<Option<MultiGuard>, Error> {
    let asking = multi.try_lock().wait(ms(wait)).into_future();
    let asking = ends_within(ms(wait) + COMMAND, "try_lock()", asking);
    tokio::join!(asking, meanwhile).0
}

/// A short lease does not change that.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_an_error_however_long_the_wait_is() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    for (wait, lease) in (52..600).step_by(13).flat_map(|wait| [(wait, 60_000), (wait, 2_000)]) {
        let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
        falls_silent(&sims[1]);
        let asking = multi.try_lock().wait(ms(wait)).lease(ms(lease)).into_future();
        let failed = ends_within(ms(wait) + COMMAND, "try_lock()", asking).await;
        assert!(matches!(failed, Err(Error::Redis(_))), "{wait}, {lease}: {failed:?}");
        sims[1].network.heal();
        blocker.unlock().await.unwrap();
        sleep(2 * COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// Its connection is lost at first.
#[tokio::test(start_paused = true)]
async fn a_server_that_fails_and_is_silent_then_is_an_error_however_long_the_wait_is() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    let network = &sims[1].network;
    for wait in (100..400).step_by(2) {
        let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
        let answers = repeat_n(Fault::SlowReply(ms(0)), 3);
        network.fail("acquire", answers.chain(repeat_n(Fault::LoseRequest, 1_000)));
        network.fail("inspect", repeat_n(Fault::Silent(COMMAND), 1_000));
        let silent = async {
            sleep(ms(wait)).await;
            network.heal();
            network.fail("", repeat_n(Fault::Silent(COMMAND), 1_000));
        };
        let failed = answer_meanwhile(&multi, wait, silent).await;
        assert!(matches!(failed, Err(Error::Redis(_))), "{wait}: {failed:?}");
        network.heal();
        blocker.unlock().await.unwrap();
        sleep(2 * COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// Its server is silent while the wait goes on, and that is no "held".
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_an_error_however_long_the_wait_is() {
    let sims = sims(&worlds_in_order()).await;
    let multi = MultiLock::all(locks(&sims[..2]));
    for wait in (10..400).step_by(13) {
        hangs(&sims[1]);
        let asking = multi.try_lock().wait(ms(wait)).into_future();
        let failed = ends_within(ms(wait) + COMMAND, "try_lock()", asking).await;
        assert!(matches!(failed, Err(Error::Redis(_))), "{wait}: {failed:?}");
        sims[1].network.heal();
        sleep(COMMAND).await;
    }
    assert_eq!(left(&sims).await, [""; 0]);
}

/// The other lock was refused early, and is free before the wait ends.
#[tokio::test(start_paused = true)]
async fn a_silent_server_beside_a_lock_that_is_held_is_an_error_however_long_the_wait_is() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    for (silent, held) in [(0, 1), (0, 2), (1, 2), (2, 1), (1, 0), (2, 0)] {
        for wait in (10..400).step_by(13) {
            let blocker = others[held].client.lock(LOCK).lock().await.unwrap();
            hangs(&sims[silent]);
            let release = async {
                sleep(ms(wait) / 2).await;
                blocker.unlock().await.unwrap();
            };
            let failed = answer_meanwhile(&multi, wait, release).await;
            assert!(matches!(failed, Err(Error::Redis(_))), "{silent}, {held}, {wait}: {failed:?}");
            sims[silent].network.heal();
            sleep(2 * COMMAND).await;
        }
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// One lock is held by another all the time. All servers answer in time, one of them or all slowly.
#[tokio::test(start_paused = true)]
async fn a_slow_server_beside_a_lock_that_is_held_is_no_error() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    let mut me = sims[0].client.owner();
    for (held, other) in others.iter().enumerate() {
        let blocker = other.client.lock(LOCK).lock().await.unwrap();
        for (slow, late) in (0..4).flat_map(|slow| [20, 250, 1_000, 2_000].map(|late| (slow, late)))
        {
            let is_slow_one = |&i: &usize| slow == 3 || i == slow;
            for (wait, owned) in
                (30..4_000).step_by(331).flat_map(|wait| [(wait, false), (wait, true)])
            {
                (0..3).filter(is_slow_one).for_each(|i| is_slow(&sims[i], "", late));
                let asking = multi.try_lock().wait(ms(wait));
                let asking = if owned { asking.by(&mut me) } else { asking }.into_future();
                let answer = ends_within(ms(wait) + COMMAND, "try_lock()", asking).await;
                assert!(
                    matches!(answer, Ok(None)),
                    "{held} is held, {slow} needs {late} ms, {wait} ms, owned: {owned}: {answer:?}"
                );
                sims.iter().for_each(|sim| sim.network.heal());
                sleep(3 * COMMAND).await;
            }
        }
        blocker.unlock().await.unwrap();
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// The first lock is granted at the very end of the wait, and another is then found to be held.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_when_the_wait_is_over_is_no_error_of_a_slow_server() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    for released in (100..3_000).step_by(100) {
        let first = others[0].client.lock(LOCK).lock().await.unwrap();
        [0, 2].into_iter().for_each(|i| is_slow(&sims[i], "acquire", 2_100));
        let release = async {
            sleep(ms(released)).await;
            first.unlock().await.unwrap();
        };
        let answer = answer_meanwhile(&multi, 3_000, release).await;
        assert!(matches!(answer, Ok(None)), "released after {released} ms: {answer:?}");
        sims.iter().for_each(|sim| sim.network.heal());
        sleep(3 * COMMAND).await;
    }
    blocker.unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// It was held when the wait ended. The last try is not answered, by another server or by that one, too. One of
/// the clients gives up before the call ends.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_held_to_the_end_is_no_error_of_servers_that_fall_silent_then() {
    let worlds = worlds_in_order();
    let others = sims(&worlds).await;
    let mut sims = sims(&worlds).await;
    sims[2] = Sim::with(&worlds[2], |config| config.command_timeout(ms(1_000))).await;
    let multi = MultiLock::all(locks(&sims));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    for silent in [&sims[2..], &sims[1..]] {
        for wait in (50..900).step_by(37) {
            is_slow(&sims[1], "acquire", 10);
            let silence = async {
                sleep(ms(wait + 5)).await;
                sims[1].network.heal();
                silent.iter().for_each(hangs);
            };
            let answer = answer_meanwhile(&multi, wait, silence).await;
            assert!(matches!(answer, Ok(None)), "{}, {wait}: {answer:?}", silent.len());
            sims.iter().for_each(|sim| sim.network.heal());
            sleep(3 * COMMAND).await;
        }
    }
    blocker.unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// It was held when a round ended shortly before the wait, which is over while the call looks whether it holds
/// that lock itself.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_held_in_the_last_round_is_no_error_of_servers_that_fall_silent_then() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    for wait in (160..320).step_by(4) {
        is_slow(&sims[1], "inspect", 50);
        let silence = async {
            sleep(ms(wait + 5)).await;
            sims[1..].iter().for_each(hangs);
        };
        let answer = answer_meanwhile(&multi, wait, silence).await;
        assert!(matches!(answer, Ok(None)), "{wait}: {answer:?}");
        sims.iter().for_each(|sim| sim.network.heal());
        sleep(3 * COMMAND).await;
    }
    blocker.unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// It was held when the last round ended, and whoever looks then whether the call holds that lock itself has no
/// answer before the wait is over. A round that ends so early that there is time for another is rare.
#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_after_the_last_round_is_an_error() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    let mut errors = 0;
    for _ in 0..40 {
        sims[1].network.fail("inspect", repeat_n(Fault::Silent(COMMAND), 1_000));
        // A round of two locks lasts 200 ms at most, and one looks for 100 ms.
        let silent = async {
            sleep(ms(205)).await;
            hangs(&sims[1]);
        };
        let answer = answer_meanwhile(&multi, 210, silent).await;
        errors += usize::from(matches!(answer, Err(Error::Redis(_))));
        sims[1].network.heal();
        sleep(3 * COMMAND).await;
    }
    assert!(errors > 20, "{errors} of 40 tries were errors");
    blocker.unlock().await.unwrap();
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// It was refused before the wait ended, and its server is silent from then on. The other server answers
/// shortly before the end or after it.
#[tokio::test(start_paused = true)]
async fn an_early_refusal_says_nothing_of_a_server_that_fell_silent() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let multi = MultiLock::all(locks(&sims[..2]));
    for late in (80..130).step_by(5) {
        let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
        is_slow(&sims[0], "acquire", late);
        let silent = async {
            sleep(ms(20)).await;
            blocker.unlock().await.unwrap();
            hangs(&sims[1]);
        };
        let answer = answer_meanwhile(&multi, 100, silent).await;
        assert!(matches!(answer, Err(Error::Redis(_))), "after {late} ms: {answer:?}");
        sims.iter().for_each(|sim| sim.network.heal());
        sleep(3 * COMMAND).await;
    }
    assert_eq!([left(&others).await, left(&sims).await].concat(), [""; 0]);
}

/// Another holds the lock of the second server, which answers so: what was found to be held is said.
async fn is_held_without_a_wait(
    others: &[Sim],
    sims: &[Sim],
    servers: impl IntoIterator<Item = (u64, Vec<Fault>)>,
) {
    let multi = MultiLock::all(locks(sims));
    let blocker = others[1].client.lock(LOCK).lock().await.unwrap();
    for (first, then) in servers {
        let what = format!("{first} ms, then {:?}", then[0]);
        let answers = [Fault::SlowReply(ms(first))].into_iter().chain(then);
        sims[1].network.fail("acquire", answers);
        let answer = ends_within(COMMAND, "try_lock()", multi.try_lock().into_future()).await;
        assert!(matches!(answer, Ok(None)), "{what}: {answer:?}");
        sims[1].network.heal();
        sleep(3 * COMMAND).await;
    }
    blocker.unlock().await.unwrap();
    assert_eq!([left(others).await, left(sims).await].concat(), [""; 0]);
}

/// However long the further tries take.
#[tokio::test(start_paused = true)]
async fn without_a_wait_a_lock_that_is_held_is_no_error_of_its_server() {
    let worlds = worlds_in_order();
    let (others, sims) = (sims(&worlds).await, sims(&worlds).await);
    let cases = (20..2_900).step_by(120).flat_map(|first| [(first, first), (first, 2_900)]);
    let servers = cases.map(|(first, then)| (first, vec![Fault::SlowReply(ms(then)); 2]));
    is_held_without_a_wait(&others, &sims[..2], servers).await;
}

/// A further try fails by itself: requests are repeated for a shorter time than the call may take.
#[tokio::test(start_paused = true)]
async fn without_a_wait_a_lock_that_is_held_is_no_error_of_a_further_try() {
    let worlds = worlds_in_order();
    let others = sims(&worlds).await;
    let mut both = Vec::new();
    for world in &worlds[..2] {
        both.push(Sim::with(world, |config| config.retry_timeout(ms(1_000))).await);
    }
    let faults = [Fault::LoseRequest, Fault::Silent(ms(1_500))];
    let servers =
        (20..2_900).step_by(120).flat_map(|first| faults.map(|then| (first, vec![then; 1_000])));
    is_held_without_a_wait(&others, &both, servers).await;
}

/// Its release is under way, and requests are repeated for a shorter time than one may take.
#[tokio::test(start_paused = true)]
async fn without_a_wait_an_owner_gets_what_it_has_just_given_back() {
    let worlds = worlds_in_order();
    let mut both = Vec::new();
    for world in &worlds[..2] {
        both.push(Sim::with(world, |config| config.retry_timeout(ms(1_000))).await);
    }
    let multi = MultiLock::all(locks(&both));
    let mut me = both[0].client.owner();
    for late in (20..1_000).step_by(60) {
        let before = multi.try_lock().by(&mut me).await.unwrap().expect("both are free");
        is_slow(&both[0], "", late);
        drop(before);
        let asking = multi.try_lock().by(&mut me).into_future();
        let guard = ends_within(COMMAND, "try_lock()", asking).await;
        let guard = guard.unwrap_or_else(|error| panic!("{late} ms: {error}"));
        guard.unwrap_or_else(|| panic!("{late} ms: both are free")).unlock().await.unwrap();
        both[0].network.heal();
        sleep(3 * COMMAND).await;
    }
    assert_eq!(left(&both).await, [""; 0]);
}
