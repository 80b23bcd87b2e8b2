//! What goes wrong with a server, and its clock.

use redis_in_process::{Channel, Refusal, Reply, Server, Value};

const SECOND: u64 = 1_000_000;

fn ok() -> Reply {
    Reply::Status(b"OK".to_vec())
}

fn text(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error(error) => error,
        other => panic!("{other:?} is no error"),
    }
}

/// A server with a key that lasts and one that lasts a second.
fn server() -> Server {
    let mut server = Server::new();
    server.set_now(1_000 * SECOND);
    assert_eq!(server.command(&["set", "lasting", "1"]), ok());
    assert_eq!(server.command(&["set", "short", "1", "px", "1000"]), ok());
    server
}

#[test]
fn a_key_lives_to_the_end_of_its_last_millisecond() {
    let mut server = server();
    server.set_now(1_001 * SECOND + 999);
    assert_eq!(server.command(&["pttl", "short"]), Reply::Int(0));
    server.set_now(1_001 * SECOND + 1_000);
    assert_eq!(server.look("short"), None);
    assert_eq!(server.command(&["pttl", "short"]), Reply::Int(-2));
    assert_eq!(server.command(&["pttl", "lasting"]), Reply::Int(-1));
}

#[test]
fn a_clock_set_back_brings_back_what_nobody_has_touched() {
    let mut server = server();
    server.set_now(1_002 * SECOND);
    assert_eq!(server.look_at_all().len(), 1);
    server.set_now(1_000 * SECOND);
    assert_eq!(server.command(&["pttl", "short"]), Reply::Int(1_000));
    server.set_now(1_002 * SECOND);
    server.sweep();
    server.set_now(1_000 * SECOND);
    assert_eq!(server.command(&["exists", "short"]), Reply::Int(0));
}

#[test]
fn a_stale_copy_has_what_was_there_then() {
    let mut server = server();
    let then = server.snapshot();
    server.command(&["hset", "later", "a", "1"]);
    server.command(&["del", "lasting"]);
    server.set_now(1_000 * SECOND + SECOND / 2);
    server.restore(&then);
    assert_eq!(server.snapshot(), then);
    assert_eq!(server.command(&["exists", "lasting", "later"]), Reply::Int(1));
    assert_eq!(server.command(&["pttl", "short"]), Reply::Int(500));
}

#[test]
fn a_server_that_starts_again_has_no_scripts_no_connections_and_no_mood() {
    let mut server = server();
    let sha = server.load("return 1");
    let subscriber = server.connect();
    assert!(server.subscribe(subscriber, Channel::Plain(b"news".to_vec())));
    server.refuse(Refusal::Loading);
    let disk = server.snapshot();
    server.set_now(1_002 * SECOND);
    server.restart(&disk);
    assert_eq!(server.command(&["dbsize"]), Reply::Int(1));
    assert!(error(server.eval_sha(&sha, &[""; 0], &[])).starts_with("NOSCRIPT "));
    assert_eq!(server.command(&["publish", "news", "a"]), Reply::Int(0));
    assert!(!server.subscribe(subscriber, Channel::Plain(b"news".to_vec())));
}

#[test]
fn keys_and_scripts_can_be_lost() {
    let mut server = server();
    assert!(server.evict("lasting"));
    assert!(!server.evict("lasting"));
    server.flush();
    assert_eq!(server.look_at_all().len(), 0);
    let sha = server.load("return 1");
    assert!(server.has_script(&sha));
    server.flush_scripts();
    assert!(error(server.command(&["evalsha", &sha, "0"])).starts_with("NOSCRIPT "));
    assert_eq!(server.command(&["eval", "return 1", "0"]), Reply::Int(1));
    assert_eq!(server.command(&["evalsha", &sha, "0"]), Reply::Int(1));
}

#[test]
fn a_loading_server_tells_the_time_and_little_else() {
    let mut server = server();
    server.refuse(Refusal::Loading);
    assert_eq!(server.command(&["time"]), Reply::Array(vec![text("1000"), text("0")]));
    for refused in [&["get", "lasting"][..], &["eval", "return 1", "0"], &["ping"]] {
        assert!(error(server.command(refused)).starts_with("LOADING "), "{refused:?}");
    }
    server.accept(Refusal::Loading);
    assert_eq!(server.command(&["get", "lasting"]), text("1"));
}

#[test]
fn a_replica_only_hides_what_has_expired() {
    let mut server = server();
    server.refuse(Refusal::ReadOnly);
    server.set_now(1_002 * SECOND);
    assert_eq!(server.command(&["get", "short"]), Reply::Nil);
    assert_eq!(server.command(&["dbsize"]), Reply::Int(2));
    server.accept_all();
    assert_eq!(server.command(&["get", "short"]), Reply::Nil);
    assert_eq!(server.command(&["dbsize"]), Reply::Int(1));
}

#[test]
fn what_a_script_has_written_stays_when_it_raises() {
    let mut server = server();
    let script = "redis.call('set', KEYS[1], 'written') redis.call('hget', KEYS[1], 'a')";
    let raised = error(server.command(&["eval", script, "1", "lasting"]));
    assert!(
        raised.starts_with("WRONGTYPE ") && raised.ends_with(", on @user_script:1."),
        "{raised}"
    );
    let entry = server.look("lasting").expect("a key");
    assert_eq!((entry.value, entry.expires), (Value::String(b"written".to_vec()), None));
}

#[test]
fn messages_wait_until_they_are_taken() {
    let mut server = server();
    let [plain, sharded] = [server.connect(), server.connect()];
    assert!(server.subscribe(plain, Channel::Plain(b"news".to_vec())));
    assert!(server.subscribe(sharded, Channel::Sharded(b"news".to_vec())));
    let script = "return {redis.call('publish', 'news', 'a'), redis.call('spublish', 'news', 'b')}";
    let one_each = Reply::Array(vec![Reply::Int(1), Reply::Int(1)]);
    assert_eq!(server.command(&["eval", script, "0"]), one_each);
    assert_eq!(server.subscribers_with_messages(), [plain, sharded]);
    assert_eq!(server.take_messages(plain)[0].text, b"a");
    assert_eq!(server.subscribers_with_messages(), [sharded]);
    assert_eq!(server.take_messages(plain), []);
    server.disconnect(sharded);
    assert_eq!(
        server.command(&["pubsub", "shardnumsub", "news"]),
        Reply::Array(vec![text("news"), Reply::Int(0)])
    );
}

#[test]
#[should_panic(expected = "the server in process has no command sadd")]
fn what_it_has_not_is_a_mistake_of_the_test_that_no_script_can_catch() {
    server().command(&["eval", "return pcall(redis.call, 'sadd', 'set', 'a')", "0"]);
}

#[test]
fn it_can_be_shared_by_tasks() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Server>();
}

#[test]
fn a_table_that_contains_itself_is_an_error() {
    let mut server = Server::new();
    for script in ["local t = {} t[1] = t return t", "local t = {} t[1] = t t[2] = t return {1, t}"]
    {
        let told = error(server.command(&["eval", script, "0"]));
        assert_eq!(told, "ERR reached lua stack limit");
    }
    let nested = |depth: usize| format!("return {}1{}", "{".repeat(depth), "}".repeat(depth));
    let mut answer = server.command(&["eval", &nested(50), "0"]);
    for _ in 0..50 {
        let Reply::Array(items) = answer else { panic!("{answer:?}") };
        [answer] = items.try_into().expect("one item");
    }
    assert_eq!(answer, Reply::Int(1));
}
