//! Semaphores and latches of a user who may not run each command of a script: nothing is half done, and a copy that comes
//! when he may is as the first one.

use super::example::examples;
use super::scene::Scene;

examples! {
    "semaphore/acquire": an_acquisition_that_is_refused_takes_nothing;
    "semaphore/drain": a_drain_that_is_refused_takes_nothing;
    "semaphore/release": a_release_that_is_refused_returns_nothing;
    "semaphore/withdraw": a_withdrawal_without_a_right_leaves_the_request,
        a_withdrawal_of_nothing_needs_no_ttl;
    "latch/count_down": a_count_that_is_refused_counts_nothing;
}

const KEYS: &str = "n ids";

/// What may be refused, and the ids after that.
const TAKING: [(&str, &str); 6] = [
    ("pexpire", "none"),
    ("zremrangebyscore", "none"),
    ("incrby", "none"),
    ("zrem pexpire", "a=-@600"),
    ("zrem zremrangebyscore", "a=-@600 for 600"),
    ("zrem incrby", "a=-@600 for 600"),
];
const GIVING: [&str; 4] = ["pexpire", "incrby", "zrem", "zrem pexpire"];

/// Runs the script when these are refused, and again when they are not. Returns the second answer.
fn refused_and_again(
    scene: &mut Scene,
    commands: &str,
    script: &str,
    args: &str,
    ids: &str,
) -> String {
    scene.command("flushall");
    scene.command("set n 2");
    scene.refuses(commands);
    assert_eq!(scene.call(script, KEYS, args), "NOPERM", "{commands}");
    assert_eq!((scene.see("n"), scene.see("ids")), ("2".into(), ids.into()), "{commands}");
    assert_eq!(scene.heard(), "", "{commands}");
    scene.refuses_nothing();
    scene.call(script, KEYS, args)
}

fn an_acquisition_that_is_refused_takes_nothing(scene: &mut Scene) {
    for (commands, ids) in TAKING {
        let again = refused_and_again(scene, commands, "semaphore/acquire", "a 2 @9 600", ids);
        let granted = if ids == "none" { ("{1, 0}", "0") } else { ("{0, 2}", "2") };
        assert_eq!((&*again, &*scene.see("n")), granted, "{commands}");
    }
}

fn a_drain_that_is_refused_takes_nothing(scene: &mut Scene) {
    for (commands, ids) in TAKING {
        let again = refused_and_again(scene, commands, "semaphore/drain", "a 2 @9 600", ids);
        let taken = if ids == "none" { ("{1, '0'}", "0") } else { ("{0, '2'}", "2") };
        assert_eq!((&*again, &*scene.see("n")), taken, "{commands}");
    }
}

fn a_release_that_is_refused_returns_nothing(scene: &mut Scene) {
    for commands in GIVING {
        let args = "a 2 @9 600 ch publish 0";
        let again = refused_and_again(scene, commands, "semaphore/release", args, "none");
        assert_eq!((&*again, &*scene.see("n")), ("1", "4"), "{commands}");
        assert_eq!(scene.heard(), "ch 4");
    }
}

fn a_count_that_is_refused_counts_nothing(scene: &mut Scene) {
    for commands in GIVING {
        let args = "a @9 600 ch publish";
        let again = refused_and_again(scene, commands, "latch/count_down", args, "none");
        assert_eq!((&*again, &*scene.see("n")), ("1", "1"), "{commands}");
    }
}

fn a_withdrawal_without_a_right_leaves_the_request(scene: &mut Scene) {
    for command in ["pexpire", "zremrangebyscore", "exists", "incrby"] {
        scene.command("flushall");
        scene.command("set n 2");
        scene.command("zadd ids @600 a");
        scene.refuses(command);
        let args = "a 1 600 ch publish";
        assert_eq!(scene.call("semaphore/withdraw", KEYS, args), "NOPERM", "{command}");
        let ids = scene.see("ids");
        assert_eq!((&*scene.see("n"), ids.split(' ').next()), ("2", Some("a=@600")), "{command}");
        scene.refuses_nothing();
        assert_eq!(scene.call("semaphore/withdraw", KEYS, args), "1", "{command}");
        assert_eq!((&*scene.see("n"), &*scene.heard()), ("3", "ch 3"), "{command}");
    }
}

/// There is nothing to be undone.
fn a_withdrawal_of_nothing_needs_no_ttl(scene: &mut Scene) {
    scene.command("set n 2");
    scene.refuses("pexpire");
    assert_eq!(scene.call("semaphore/withdraw", KEYS, "a 1 600 ch publish"), "0");
    assert_eq!((scene.see("n"), scene.see("ids")), ("2".into(), "a=-@600".into()));
}
