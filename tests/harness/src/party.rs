//! One owner in a peer, at one lock.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::load::{Load, LoadReport, millis};
use crate::names::member_names;
use crate::peer::{Answer, Lang, Peer, PeerError, Pending};
use crate::wait::PATIENCE;

/// How long a Redisson writer may sleep that was not asleep yet when a release was told: it misses that, and sleeps for
/// the lease it saw.
const MISSED_RELEASE: Duration = Duration::from_secs(30);

/// One owner (a thread, as Java has it) in a peer, at one lock of one kind.
///
/// The methods named plainly expect the operation to succeed and panic with the peer's own words when it does not;
/// [`Party::ask`] and [`Party::start`] leave the judgement to the test.
#[derive(Debug, Clone)]
pub struct Party {
    peer: Peer,
    kind: &'static str,
    name: String,
    /// Of a lock made of several, their names; if not said, those of [`member_names`].
    members: Option<Vec<String>>,
    owner: String,
}

impl Peer {
    /// An owner of this name at this lock.
    pub fn party(
        &self,
        owner: impl Into<String>,
        kind: &'static str,
        name: impl Into<String>,
    ) -> Party {
        Party { peer: self.clone(), kind, name: name.into(), members: None, owner: owner.into() }
    }
}

impl Party {
    /// The process it lives in.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The same owner at another lock.
    pub fn at(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// The same owner with another kind of lock.
    pub fn of_kind(&self, kind: &'static str) -> Self {
        Self { kind, ..self.clone() }
    }

    /// The same owner with a lock made of these.
    pub fn of_members(&self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { members: Some(names.into_iter().map(Into::into).collect()), ..self.clone() }
    }

    /// Sends a request, with further fields in an object (or `null`), for later.
    pub fn start(&self, op: &str, fields: Value) -> Pending {
        let mut request = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let ours = [("op", op), ("kind", self.kind), ("owner", &self.owner)];
        request.extend(ours.map(|(field, value)| (field.into(), value.into())));
        match (self.kind, &self.members) {
            ("multi" | "majority", Some(members)) => {
                request.insert("names".into(), json!(members));
            }
            ("multi" | "majority", None) => {
                request.insert("names".into(), json!(member_names(&self.name)));
            }
            _ => {
                request.insert("name".into(), json!(self.name));
            }
        }
        self.peer.start(Value::Object(request))
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// What the peer answers.
    pub async fn ask(&self, op: &str, fields: Value) -> Result<Answer, PeerError> {
        self.start(op, fields).answer().await
    }

    /// Takes the lock, however long it has to wait for it.
    pub async fn lock(&self) -> Answer {
        self.start_lock().granted().await
    }

    /// Begins to take the lock.
    pub fn start_lock(&self) -> Pending {
        self.start("lock", Value::Null)
    }

    /// Takes the lock for a fixed lease.
    pub async fn lock_for(&self, lease: Duration) -> Answer {
        self.start("lock", json!({ "lease_ms": millis(lease) })).granted().await
    }

    /// Takes the lock if it is free.
    pub async fn try_lock(&self) -> bool {
        self.expect("try_lock", Value::Null).await.is_granted()
    }

    /// Takes the lock if it is free, for a fixed lease.
    pub async fn try_lock_for(&self, lease: Duration) -> bool {
        self.expect("try_lock", json!({ "lease_ms": millis(lease) })).await.is_granted()
    }

    /// Begins to take the lock if it becomes free within `wait`.
    pub fn start_try_lock(&self, wait: Duration) -> Pending {
        self.start("try_lock", json!({ "wait_ms": millis(wait) })).longer_by(wait)
    }

    /// The same with a fixed lease.
    pub fn start_try_lock_for(&self, wait: Duration, lease: Duration) -> Pending {
        self.start("try_lock", json!({ "wait_ms": millis(wait), "lease_ms": millis(lease) }))
            .longer_by(wait)
    }

    /// Gives one hold back.
    pub async fn unlock(&self) -> Answer {
        self.expect("unlock", Value::Null).await
    }

    /// Tries to give back what it does not hold; gives the peer's error code.
    ///
    /// # Panics
    /// When the unlock succeeds.
    pub async fn unlock_refused(&self) -> String {
        match self.ask("unlock", Value::Null).await {
            Err(error) => error.code().unwrap_or_else(|| panic!("{error}")).to_owned(),
            Ok(_) => panic!("{self} gave back {:?}, which it was not to hold", self.name),
        }
    }

    /// Frees the lock whoever holds it; whether anybody did.
    pub async fn force_unlock(&self) -> bool {
        self.expect("force_unlock", Value::Null).await.is_true()
    }

    /// Gives up what this owner waits for.
    pub async fn cancel(&self) {
        self.expect("cancel", Value::Null).await;
    }

    /// Whether anybody holds it.
    pub async fn is_locked(&self) -> bool {
        self.expect("is_locked", Value::Null).await.is_true()
    }

    /// Whether this owner holds it.
    pub async fn is_held(&self) -> bool {
        self.expect("is_held", Value::Null).await.is_true()
    }

    /// How many times this owner holds it.
    pub async fn hold_count(&self) -> i64 {
        self.expect("hold_count", Value::Null).await.number()
    }

    /// How long the lock lives on, in milliseconds; −1 without an end, −2 when it is free.
    pub async fn remaining_ms(&self) -> i64 {
        self.expect("remaining_ms", Value::Null).await.number()
    }

    /// The token that a fenced lock has given out last.
    pub async fn token(&self) -> i64 {
        self.expect("token", Value::Null).await.number()
    }

    /// Who holds the lock and who waits for it, as the Rust peer sees it.
    pub async fn inspect(&self) -> Value {
        self.expect("inspect", Value::Null).await.value
    }

    /// Asks the holders to release the lock: how many there are, and how many clients heard it. `None`: there are none. Rust only.
    pub async fn ask_to_release(&self) -> Option<(i64, i64)> {
        let asked = self.expect("ask", Value::Null).await.value;
        let number = |field: &str| asked[field].as_i64().expect("a number");
        (!asked.is_null()).then(|| (number("holders"), number("listening")))
    }

    /// Begins to wait for such a question to this owner's hold. Rust only.
    pub fn start_asked(&self, wait: Duration) -> Pending {
        self.start("asked", json!({ "wait_ms": millis(wait) })).longer_by(wait)
    }

    /// Tries to take the lock, which is an error; gives the peer's error code.
    ///
    /// # Panics
    /// When there is no error.
    pub async fn lock_fails(&self, op: &str) -> String {
        match self.ask(op, Value::Null).await {
            Err(error) => error.code().unwrap_or_else(|| panic!("{error}")).to_owned(),
            Ok(answer) => panic!("{self}: {op} {:?} is no error but {}", self.name, answer.value),
        }
    }

    /// Does this with so many permits, or with a count of so many; gives what came of it.
    pub async fn with(&self, op: &str, n: i64) -> Value {
        self.expect(op, json!({ "n": n })).await.value
    }

    /// Begins to take so many permits.
    pub fn start_acquire(&self, n: i64) -> Pending {
        self.start("lock", json!({ "n": n }))
    }

    /// The same, for so long.
    pub fn start_try_acquire(&self, n: i64, wait: Duration) -> Pending {
        self.start("try_lock", json!({ "n": n, "wait_ms": millis(wait) })).longer_by(wait)
    }

    /// Runs a [`Load`] in this party's process.
    pub async fn run(&self, load: &Load) -> LoadReport {
        let fields = serde_json::to_value(load).expect("a load as JSON");
        let missed = match self.peer.lang() {
            Lang::Java => MISSED_RELEASE,
            Lang::Rust | Lang::Python => Duration::ZERO,
        };
        let answer = self.start("loop", fields).longer_by(load.time() + missed).answer().await;
        let answer = answer.unwrap_or_else(|error| panic!("{self}: loop: {error}"));
        serde_json::from_value(answer.value.clone())
            .unwrap_or_else(|error| panic!("{self}: {error} in {answer:?}"))
    }

    async fn expect(&self, op: &str, fields: Value) -> Answer {
        let answer = self.start(op, fields).within(PATIENCE).await;
        answer.unwrap_or_else(|error| panic!("{self}: {op} {:?}: {error}", self.name))
    }
}

impl std::fmt::Display for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.owner, self.peer.lang())
    }
}
