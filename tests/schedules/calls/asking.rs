//! Questions to holders.

use super::example::examples;
use super::scene::Scene;

examples! {
    "asking/ask": holders_are_asked_and_listeners_are_told, a_question_replaces_an_earlier_one,
        old_questions_are_forgotten, a_question_nobody_hears_is_kept;
    "asking/asked": who_was_asked_is_told_how_long_ago, who_was_not_asked_is_told_so,
        a_question_from_the_future_was_asked_now;
}

fn holders_are_asked_and_listeners_are_told(scene: &mut Scene) {
    scene.listen("c");
    scene.listen("publish");
    assert_eq!(scene.call("asking/ask", "q", "600 c publish a b"), "2");
    assert_eq!(scene.see("q"), "a=@0 b=@0 for 600");
    assert_eq!(scene.heard(), "c 1");
}

fn a_question_replaces_an_earlier_one(scene: &mut Scene) {
    scene.command("zadd q @0 a @0 b");
    scene.command("pexpire q 100");
    scene.at(70);
    assert_eq!(scene.call("asking/ask", "q", "600 c publish a"), "1");
    assert_eq!(scene.see("q"), "b=@0 a=@70 for 600");
}

fn old_questions_are_forgotten(scene: &mut Scene) {
    scene.command("zadd q @0 oldest @1 old @2 young");
    scene.at(601);
    scene.call("asking/ask", "q", "600 c publish a");
    assert_eq!(scene.see("q"), "young=@2 a=@601 for 600");
}

fn a_question_nobody_hears_is_kept(scene: &mut Scene) {
    scene.is_deaf();
    assert_eq!(scene.call("asking/ask", "q", "600 c publish a"), "0");
    assert_eq!(scene.see("q"), "a=@0 for 600");
}

fn who_was_asked_is_told_how_long_ago(scene: &mut Scene) {
    scene.command("zadd q @0 a @1 b");
    assert_eq!(scene.call("asking/asked", "q", "a"), "0");
    scene.at(1_234);
    assert_eq!(scene.call("asking/asked", "q", "a"), "1234");
    assert_eq!(scene.call("asking/asked", "q", "b"), "1233");
}

fn who_was_not_asked_is_told_so(scene: &mut Scene) {
    assert_eq!(scene.call("asking/asked", "q", "a"), "-1");
    scene.command("zadd q @0 b");
    assert_eq!(scene.call("asking/asked", "q", "a"), "-1");
}

fn a_question_from_the_future_was_asked_now(scene: &mut Scene) {
    scene.command("zadd q @7 a");
    assert_eq!(scene.call("asking/asked", "q", "a"), "0");
}
