//! [`Server`]: commands, scripts, listeners, time, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::commands::{Command, Data, Deed, Executed, SCRIPTING};
use crate::interpreter::Interpreter;
use crate::keyspace::Entry;
use crate::number::integer;
use crate::pubsub::{Channel, Message, Subscriber};
use crate::refusal::Refusal;
use crate::reply::{Answer, Refused, Reply};

type Words<'a> = &'a [Vec<u8>];

const NO_SCRIPT: Refused = Refused::Borrowed("NOSCRIPT No matching script. Please use EVAL.");

/// A Redis server: one database, one clock, nothing of its own accord.
///
/// What a command answers follows from the commands before it and from the clock alone.
pub struct Server {
    data: Arc<Mutex<Data>>,
    interpreter: Interpreter,
    /// The scripts that EVALSHA finds.
    scripts: BTreeSet<String>,
}

impl Debug for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let data = self.data();
        f.debug_struct("Server").field("data", &data).field("scripts", &self.scripts).finish()
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

/// All that a server keeps on its disk: keys and when they expire.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot(BTreeMap<Vec<u8>, Entry>);

impl Server {
    /// An empty server, at the beginning of time.
    pub fn new() -> Self {
        let data = Arc::default();
        let interpreter = Interpreter::new(&data);
        Self { data, interpreter, scripts: BTreeSet::new() }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().expect("no command has panicked")
    }

    // ---- Time

    /// Server time, in µs since the epoch.
    pub fn now(&self) -> u64 {
        self.data().now
    }

    /// Sets the clock, to an earlier moment too. What expires is deleted when it is touched next: until then an earlier moment
    /// brings it back. See [`Server::sweep`].
    pub fn set_now(&mut self, micros: u64) {
        let mut data = self.data();
        data.now = micros;
        data.keys.set_now(micros / 1000);
    }

    /// Deletes all keys that have expired, as a real server does by and by.
    pub fn sweep(&mut self) {
        self.data().keys.sweep();
    }

    // ---- Commands

    /// Runs a command that a client has sent.
    ///
    /// # Panics
    /// When this server does not have the command or one of its options, unless it
    /// [answers that with an error](Server::answer_missing). Redis may have it.
    pub fn command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        self.execute(&words).into()
    }

    fn execute(&mut self, words: &[Vec<u8>]) -> Answer {
        let command =
            Command::find(words).map_err(|missing| missing.for_client(&self.data(), words))?;
        let args = command.arguments(words);
        {
            let mut data = self.data();
            data.refusals.of_client(command.nature)?;
            data.record(words, false);
        }
        match command.deed {
            Deed::Run(run) => run(&mut self.data(), args),
            Deed::Eval => {
                let (keys, rest) = keys_of(args)?;
                let sha = self.compile(&args[0])?;
                self.run(&sha, keys, rest)
            }
            Deed::EvalSha => {
                if args[0].len() != 40 {
                    return Err(NO_SCRIPT);
                }
                let (keys, rest) = keys_of(args)?;
                let sha = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
                self.run(&sha, keys, rest)
            }
            Deed::ScriptLoad => Ok(Reply::bulk(self.compile(&args[0])?)),
            Deed::ScriptExists => {
                let known = |sha: &Vec<u8>| self.scripts.contains(&*String::from_utf8_lossy(sha));
                Ok(Reply::Array(args.iter().map(|sha| known(sha).into()).collect()))
            }
            Deed::ScriptFlush => {
                let how = args.iter().map(|how| how.to_ascii_lowercase()).collect::<Vec<_>>();
                if !matches!(&how[..], []) && how != [b"sync"] && how != [b"async"] {
                    return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
                }
                self.scripts.clear();
                Ok(Reply::ok())
            }
        }
    }

    /// The error by which the server would refuse the command without running it: it is not there, has a wrong number of words, or
    /// is [refused](Server::refuse). So MULTI takes no such command.
    ///
    /// # Panics
    /// As [`Server::command`].
    pub fn refusal_of<W: AsRef<[u8]>>(&self, words: &[W]) -> Option<Reply> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_ref().to_vec()).collect();
        let data = self.data();
        let command = Command::find(&words).map_err(|missing| missing.for_client(&data, &words));
        let may = command.and_then(|command| data.refusals.of_client(command.nature));
        may.err().map(|error| Err(error).into())
    }

    /// From now on a command or an option that this server does not have is an error, and not a panic. Redis may have it.
    pub fn answer_missing(&mut self) {
        self.data().lenient = true;
    }

    /// Begins or ends a record of what is executed, commands of scripts included: what MONITOR shows.
    pub fn record(&mut self, wanted: bool) {
        let mut data = self.data();
        match (wanted, &data.executed) {
            (true, None) => data.executed = Some(Vec::new()),
            (false, _) => data.executed = None,
            _ => {}
        }
    }

    /// What was executed since it was asked last. Nothing without [`Server::record`].
    pub fn take_executed(&mut self) -> Vec<Executed> {
        self.data().executed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Loads a script, and answers with its SHA-1 in hex.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn load(&mut self, source: &str) -> String {
        self.compile(source.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a script by its SHA-1: EVALSHA.
    pub fn eval_sha<W: AsRef<[u8]>>(&mut self, sha: &str, keys: &[W], args: &[W]) -> Reply {
        let may = self.data().refusals.of_client(SCRIPTING);
        may.and_then(|()| self.run(sha, keys, args)).into()
    }

    fn compile(&mut self, source: &[u8]) -> Result<String, Refused> {
        if source.starts_with(b"#!") {
            return Err(self.data().missing(format_args!("scripts with flags")));
        }
        let sha = self.interpreter.compile(source)?;
        self.scripts.insert(sha.clone());
        Ok(sha)
    }

    fn run<W: AsRef<[u8]>>(&mut self, sha: &str, keys: &[W], args: &[W]) -> Answer {
        if !self.scripts.contains(sha) {
            return Err(NO_SCRIPT);
        }
        let mut data = self.data();
        data.refusals.of_script()?;
        data.script_has_written = false;
        drop(data);
        Ok(self.interpreter.run(sha, keys, args))
    }

    // ---- Listeners

    /// A new connection that may listen.
    pub fn connect(&mut self) -> Subscriber {
        self.data().pubsub.open()
    }

    /// Ends it, with its subscriptions and what it has not taken.
    pub fn disconnect(&mut self, subscriber: Subscriber) {
        self.data().pubsub.close(subscriber);
    }

    /// Whether the connection is still there to listen.
    pub fn subscribe(&mut self, subscriber: Subscriber, channel: Channel) -> bool {
        self.data().pubsub.subscribe(subscriber, channel)
    }

    /// Whether the connection is still there.
    pub fn unsubscribe(&mut self, subscriber: Subscriber, channel: &Channel) -> bool {
        self.data().pubsub.unsubscribe(subscriber, channel)
    }

    /// What it has heard since it was asked last, in order.
    pub fn take_messages(&mut self, subscriber: Subscriber) -> Vec<Message> {
        self.data().pubsub.take(subscriber)
    }

    /// The connections that have heard something since they were asked last.
    pub fn subscribers_with_messages(&self) -> Vec<Subscriber> {
        self.data().pubsub.with_messages()
    }

    // ---- A look from outside, which changes nothing and is never refused

    /// The key, if it has not expired.
    pub fn look(&self, key: impl AsRef<[u8]>) -> Option<Entry> {
        self.data().keys.look(key.as_ref()).cloned()
    }

    /// All keys that have not expired.
    pub fn look_at_all(&self) -> BTreeMap<Vec<u8>, Entry> {
        self.data().keys.seen().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Whether EVALSHA finds the script.
    pub fn has_script(&self, sha: &str) -> bool {
        self.scripts.contains(sha)
    }

    // ---- What goes wrong

    /// What is to be kept for [`Server::restore`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.data().keys.all().clone())
    }

    /// Has the keys of that moment again, and none besides: what a replica that was behind has when it becomes the master. The
    /// clock goes on. Expiries are points in time, so some may have passed.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.data().keys.replace(snapshot.0.clone());
    }

    /// Starts again with what was on its disk: without scripts and connections, and with no mood.
    pub fn restart(&mut self, snapshot: &Snapshot) {
        self.restore(snapshot);
        self.sweep();
        self.scripts.clear();
        self.accept_all();
        self.data().pubsub.close_all();
    }

    /// Loses all keys.
    pub fn flush(&mut self) {
        self.data().keys.clear();
    }

    /// Loses all scripts.
    pub fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Loses a key; whether it was there.
    pub fn evict(&mut self, key: impl AsRef<[u8]>) -> bool {
        self.data().keys.remove(key.as_ref())
    }

    /// Refuses commands from now on, for one reason more.
    pub fn refuse(&mut self, why: Refusal) {
        self.change_mood(|data| data.refusals.hold(why));
    }

    /// Refuses no commands any more for that reason.
    pub fn accept(&mut self, why: Refusal) {
        self.change_mood(|data| data.refusals.drop(why));
    }

    /// Refuses no commands any more.
    pub fn accept_all(&mut self) {
        self.change_mood(|data| data.refusals.clear());
    }

    fn change_mood(&mut self, change: impl FnOnce(&mut Data)) {
        let mut data = self.data();
        change(&mut data);
        data.keys.only_hides = data.refusals.is_replica();
    }
}

/// The keys of EVAL and of EVALSHA, and what stands behind them.
fn keys_of(args: Words<'_>) -> Result<(Words<'_>, Words<'_>), Refused> {
    let [_, count, rest @ ..] = args else { unreachable!("their arity") };
    let count = integer(count)?;
    if count > rest.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    Ok(rest.split_at(count))
}
