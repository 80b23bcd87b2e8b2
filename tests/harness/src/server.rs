//! A Redis server for one test.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write, stderr};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::Connection;
use tempfile::TempDir;

use crate::connect::{client, connect};
use crate::inspect::Inspector;
use crate::tls::TlsFiles;
use crate::wait::blocking;

const START_LIMIT: Duration = Duration::from_secs(10);
const REPLY_LIMIT: Duration = Duration::from_secs(1);
const PORT_TRIES: usize = 10;
const SENTINEL_FILE: &str = "sentinel.conf";

/// A `redis-server` process on a free loopback port, in memory only, with a directory of its own; gone when dropped.
///
/// The binary is `redis-server` on the `PATH`, or what the environment variable `REDIS_SERVER` names.
/// The methods block for a moment, as long as a server needs to start or to die.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    ports: Ports,
    directory: TempDir,
    terms: RedisServerBuilder,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    plain: u16,
    tls: Option<u16>,
}

/// What a [`RedisServer`] is started with.
#[derive(Debug, Clone, Default)]
pub struct RedisServerBuilder {
    port: Option<u16>,
    unix_socket: bool,
    tls: Option<TlsFiles>,
    mode: Mode,
    arguments: Vec<String>,
    variables: Vec<(String, OsString)>,
    files_may_be_limited: bool,
    /// What the file says at first that it keeps its settings in.
    settings: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Plain,
    /// With a second port for the bus, so much above the first.
    ClusterNode,
    /// With a file to keep what it knows in.
    Sentinel,
}

/// Where a node of a cluster listens for the others, above its port.
const BUS: u16 = 10_000;

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// When there is no `redis-server`, or it does not come up.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with other terms.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    /// The loopback TCP port.
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// That for TLS, of a server started with [`RedisServerBuilder::tls`].
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls
    }

    /// The one by which other servers find it.
    pub(crate) fn port_for_servers(&self) -> u16 {
        self.ports.tls.unwrap_or(self.ports.plain)
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// `redis+unix:///…` of a server started with [`RedisServerBuilder::unix_socket`].
    ///
    /// # Panics
    /// When the server has no unix socket.
    pub fn unix_url(&self) -> String {
        assert!(self.terms.unix_socket, "this server was started without a unix socket");
        format!("redis+unix://{}", self.unix_path().display())
    }

    /// The path of the unix socket, whether there is one or not.
    pub fn unix_path(&self) -> PathBuf {
        unix_path(self.directory.path())
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it keeps its data and its log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// A new blocking connection of an independent client, without a timeout: with one, a signal such as that of a
    /// dying child would interrupt it.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn client(&self) -> Connection {
        let connection = client(self.port()).get_connection();
        connection
            .unwrap_or_else(|error| panic!("the server on port {} refuses: {error}", self.port()))
    }

    /// A new [`Inspector`].
    pub fn inspector(&self) -> Inspector {
        Inspector::new(self.client())
    }

    /// Stops the process where it stands (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the process (SIGKILL) and reaps it.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again on the same port, kills it first if it still runs. It is empty, unless it was started with an
    /// append-only file.
    pub fn restart(&mut self) {
        self.kill();
        let again =
            blocking(START_LIMIT, || launch(&self.terms, self.directory.path(), self.ports).ok());
        self.process =
            again.unwrap_or_else(|| panic!("the server did not come back on port {}", self.port()));
    }

    /// Its files get no longer than so many bytes, or as long as they like: a disk that is full, of a server started with
    /// [`RedisServerBuilder::files_may_be_limited`].
    pub fn limit_files(&self, bytes: Option<u64>) {
        assert!(self.terms.files_may_be_limited, "a signal would kill this server");
        let most = bytes.map_or("unlimited".into(), |bytes| bytes.to_string());
        let mut prlimit = Command::new("prlimit");
        prlimit.args([format!("--pid={}", self.pid()), format!("--fsize={most}:unlimited")]);
        let done = prlimit.status().expect("`prlimit`, of util-linux");
        assert!(done.success(), "`prlimit` cannot limit the files of the server");
    }

    fn signal(&self, signal: Signal) {
        kill(pid(&self.process), signal)
            .unwrap_or_else(|error| panic!("{signal} to the server: {error}"));
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl RedisServerBuilder {
    /// A fixed port in place of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Listens on a unix socket too.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Listens for TLS too, on a port of its own, by which other servers find it: they also speak TLS.
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// A node of a cluster yet to be joined.
    pub(crate) fn cluster_node(mut self) -> Self {
        self.mode = Mode::ClusterNode;
        self.arg("--cluster-enabled").arg("yes")
    }

    /// A sentinel that watches nobody yet. It keeps what it is told over a restart.
    pub(crate) fn sentinel(mut self) -> Self {
        self.mode = Mode::Sentinel;
        self
    }

    /// A server that others set the role of. It keeps that over a restart, as a server with a configuration file does. At
    /// first it is a master, or the replica of the one with this port.
    pub(crate) fn keeps_its_role(mut self, master: Option<u16>) -> Self {
        let role = master.map(|port| format!("replicaof 127.0.0.1 {port}\n"));
        self.settings = Some(role.unwrap_or_default());
        self
    }

    /// One more argument, such as `--requirepass` and then `secret`.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// One more variable of its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// [`RedisServer::limit_files`] works.
    pub fn files_may_be_limited(mut self) -> Self {
        self.files_may_be_limited = true;
        self
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// When there is no `redis-server`, or it does not come up.
    pub fn start(self) -> RedisServer {
        let directory = tempfile::Builder::new()
            .prefix("redis-")
            .tempdir()
            .expect("a directory for the server");
        let mut last = String::new();
        for _ in 0..PORT_TRIES {
            let free_port = || match self.mode {
                Mode::ClusterNode => free_port_with_bus(),
                Mode::Plain | Mode::Sentinel => free_port(),
            };
            let plain = self.port.unwrap_or_else(free_port);
            let ports = Ports { plain, tls: self.tls.as_ref().map(|_| free_port()) };
            match launch(&self, directory.path(), ports) {
                Ok(process) => {
                    return RedisServer { process, ports, directory, terms: self };
                }
                Err(log) => last = log,
            }
        }
        panic!("redis-server did not start in {PORT_TRIES} tries; the last one said:\n{last}");
    }
}

/// One try: the running server, or what it said before it died (the port may have been taken in between).
fn launch(terms: &RedisServerBuilder, directory: &Path, ports: Ports) -> Result<Child, String> {
    let port = ports.plain;
    let binary = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let output =
        File::create(directory.join("output.log")).expect("a file for the server's output");
    let mut command = Command::new(&binary);
    if terms.files_may_be_limited {
        // What is ignored stays so.
        command = Command::new("sh");
        command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, &binary]);
    }
    if terms.mode == Mode::Sentinel {
        command.arg(sentinel_file(directory)).arg("--sentinel");
    } else {
        if let Some(settings) = &terms.settings {
            command.arg(settings_file(directory, settings));
        }
        command.args(["--save", "", "--appendonly", "no"]);
    }
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .arg("--dir")
        .arg(directory)
        .args(["--logfile", "redis.log"]);
    if terms.unix_socket {
        command.arg("--unixsocket").arg(unix_path(directory));
    }
    if let (Some(files), Some(port)) = (&terms.tls, ports.tls) {
        command.args(files.arguments(port));
        if terms.mode == Mode::ClusterNode {
            command.args(["--tls-cluster", "yes"]);
        }
    }
    command.args(&terms.arguments).stdin(Stdio::null());
    command.envs(terms.variables.iter().map(|(name, value)| (name, value)));
    command.stderr(output.try_clone().expect("a second handle")).stdout(output);

    let mut process = match command.spawn() {
        Ok(process) => process,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("{}", no_server(&binary))
        }
        Err(error) => panic!("`{binary}` cannot be started: {error}"),
    };
    let up = blocking(START_LIMIT, || match process.try_wait() {
        Ok(None) => answers_as_ours(terms.mode, port, directory).then_some(true),
        _ => Some(false),
    });
    if up == Some(true) {
        return Ok(process);
    }
    let _ = process.kill();
    let _ = process.wait();
    let log = |file| fs::read_to_string(directory.join(file)).unwrap_or_default();
    Err(log("output.log") + &log("redis.log"))
}

/// What to do without a server. It is also said past the capture of the test harness, once in a process.
fn no_server(binary: &str) -> String {
    static TOLD: Once = Once::new();
    let what = format!(
        "there is no `{binary}`: install Redis (`make quick` and `make test` do it), or name the binary in REDIS_SERVER; \
         `make check` runs the tests that need none"
    );
    TOLD.call_once(|| drop(writeln!(stderr(), "\nTHESE TESTS NEED A REDIS SERVER: {what}\n")));
    what
}

/// Another test's server may answer on the port ours did not get: the directory tells them apart.
fn answers_as_ours(mode: Mode, port: u16, directory: &Path) -> bool {
    // Whoever else listens there may not speak our language.
    let Ok(mut connection) = connect(port, REPLY_LIMIT) else {
        return false;
    };
    if mode == Mode::Sentinel {
        // It does not tell its directory, but its file.
        let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection);
        let file = |info: String| {
            let file = info.lines().find_map(|line| line.strip_prefix("config_file:"))?;
            Some(same_path(Path::new(file), &directory.join(SENTINEL_FILE)))
        };
        return info.ok().and_then(file).unwrap_or(false);
    }
    match redis::cmd("CONFIG").arg("GET").arg("dir").query::<Vec<String>>(&mut connection) {
        Ok(pair) => pair.get(1).is_some_and(|answer| same_path(Path::new(answer), directory)),
        // A server with a password does not tell, but it is up.
        Err(error) => error.code() == Some("NOAUTH"),
    }
}

fn same_path(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok() == other.canonicalize().ok()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
    listener.local_addr().expect("its address").port()
}

/// Its bus needs a port too.
fn free_port_with_bus() -> u16 {
    let with_bus = |&port: &u16| {
        let bus = port.checked_add(BUS);
        bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok())
    };
    std::iter::repeat_with(free_port).find(with_bus).expect("a free port with another above it")
}

/// The file a sentinel keeps what it knows in; a new one knows nothing.
fn sentinel_file(directory: &Path) -> PathBuf {
    kept_file(directory, SENTINEL_FILE, "")
}

/// The file a server keeps its settings in.
fn settings_file(directory: &Path, first: &str) -> PathBuf {
    kept_file(directory, "redis.conf", first)
}

/// A file of this name, which says this as long as nobody has written it.
fn kept_file(directory: &Path, name: &str, first: &str) -> PathBuf {
    let file = directory.join(name);
    if !file.exists() {
        fs::write(&file, first).expect("a file for the server");
    }
    file
}

fn unix_path(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

fn pid(process: &Child) -> Pid {
    Pid::from_raw(process.id().try_into().expect("a process id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_answers_and_is_gone_when_dropped() {
        let server = RedisServer::start();
        let port = server.port();
        let pong: String = redis::cmd("PING").query(&mut server.client()).unwrap();
        assert_eq!(pong, "PONG");
        drop(server);
        assert!(client(port).get_connection().is_err());
    }

    #[test]
    fn a_restarted_server_is_empty_and_on_the_same_port() {
        let mut server = RedisServer::start();
        let port = server.port();
        redis::cmd("SET").arg("k").arg("v").exec(&mut server.client()).unwrap();
        server.restart();
        assert_eq!(server.port(), port);
        let value: Option<String> = redis::cmd("GET").arg("k").query(&mut server.client()).unwrap();
        assert_eq!(value, None);
    }

    #[test]
    fn a_paused_server_answers_when_it_is_resumed() {
        let server = RedisServer::start();
        let mut client = server.client();
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        server.pause();
        redis::cmd("PING").exec(&mut client).unwrap_err();
        server.resume();
        redis::cmd("PING").exec(&mut server.client()).unwrap();
    }

    #[test]
    fn a_unix_socket_is_where_the_url_says() {
        let server = RedisServer::builder().unix_socket().start();
        let mut client = redis::Client::open(server.unix_url()).unwrap().get_connection().unwrap();
        redis::cmd("PING").exec(&mut client).unwrap();
    }
}
