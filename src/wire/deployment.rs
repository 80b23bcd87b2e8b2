//! [`Deployment`]: the servers that a configuration names, and how a client logs in to them.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    fmt, fs,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use super::{node_id::NodeId, tls::Tls};
use crate::error::Error;

/// The address of a server. The alias does not count for equality.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    /// Another host by which servers may redirect a client to it.
    pub(super) alias: Option<String>,
}

impl Address {
    pub(super) fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, alias: None }
    }

    /// Whether a redirection to `other` leads here.
    pub(super) fn is_called(&self, other: &Self) -> bool {
        self == other || self.port == other.port && self.alias.as_ref() == Some(&other.host)
    }

    /// Reads `host:port` or `[::1]:port`, as a user writes it.
    pub(super) fn parse_users(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        may_be_a_host(host).then_some(Self::new(host, port.parse().ok()?))
    }

    fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Parses an address as in `MOVED 3999 127.0.0.1:6381`. An IPv6 host has colons and no
    /// brackets. A node that does not know its own address leaves the host out, and the asked host
    /// counts.
    pub(super) fn parse_servers(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { &asked.host } else { host };
        Some(Self::new(host, port.parse().ok()?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Address {}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

/// A user and a password, where a server asks for them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl Credentials {
    /// These credentials, with missing parts from the others.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            username: self.username.or(other.username),
            password: self.password.or(other.password),
        }
    }

    /// The same, with an empty password for a user without one. Without a password nothing is sent,
    /// and the server would take the client for its default user.
    pub(crate) fn complete(self) -> Self {
        // An empty name, as of a template without a value, is none.
        let username = self.username.filter(|name| !name.is_empty());
        let password = self.password.or_else(|| username.is_some().then(String::new));
        Self { username, password }
    }
}

/// A file whose text is a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordFile(PathBuf);

impl PasswordFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The password that it holds now. The error names the file.
    pub(crate) fn read(&self) -> Result<String, String> {
        let unusable = |why| format!("the password file {} {why}", self.0.display());
        let text = fs::read_to_string(&self.0)
            .map_err(|error| unusable(format!("cannot be read: {error}")))?;
        match text.strip_suffix('\n').map_or(&*text, |text| text.trim_end_matches('\r')) {
            "" => Err(unusable("is empty".into())),
            password => Ok(password.into()),
        }
    }
}

/// The servers that a configuration names.
#[derive(Clone)]
pub(crate) enum Servers {
    One(Address),
    UnixSocket(PathBuf),
    /// Some nodes of a Redis Cluster.
    Cluster(Vec<Address>),
    /// Sentinels, their name for the master, and the credentials for the sentinels.
    Sentinels(Vec<Address>, String, Credentials),
}

/// What a configuration says about its servers. `{:?}` shows no credentials.
#[derive(Clone)]
pub(crate) struct Deployment {
    pub(crate) servers: Servers,
    /// The credentials for the servers that have the locks.
    pub(crate) credentials: Credentials,
    /// What counts instead of their password.
    pub(crate) password_file: Option<PasswordFile>,
    pub(crate) database: Option<u8>,
    /// Whether the URL asks for TLS.
    pub(crate) uses_tls: bool,
    /// The options of TLS. `None`: the system's authorities, without a client certificate.
    pub(crate) tls: Option<Tls>,
    pub(crate) nat: Nat,
}

/// Where to reach servers that announce another address: hosts, and hosts with ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nat {
    hosts: HashMap<String, String>,
    addresses: BTreeMap<Address, Address>,
}

impl Nat {
    /// Reads hosts by hosts, and `host:port` by `host:port`.
    pub(crate) fn read(map: &BTreeMap<String, String>) -> Result<Self, Error> {
        let mut nat = Self::default();
        for (from, to) in map {
            match (Address::parse_users(from), Address::parse_users(to)) {
                (Some(from), Some(to)) => {
                    nat.addresses.insert(from, to);
                }
                (None, None) if is_host(from) && is_host(to) => {
                    nat.hosts.insert(from.clone(), to.clone());
                }
                _ if [from, to].iter().any(|text| text.contains('@')) => {
                    return Err(Error::Config("an address in the NAT map has an @".into()));
                }
                _ => {
                    return Err(Error::Config(format!(
                        "the NAT map has {from:?} by {to:?}, but must have hosts by hosts, or host:port by host:port"
                    )));
                }
            }
        }
        Ok(nat)
    }

    /// Where to reach the server that announces this address.
    pub(super) fn reach(&self, announced: Address) -> Address {
        if let Some(Address { host, port, .. }) = self.addresses.get(&announced) {
            return Address { host: host.clone(), port: *port, ..announced };
        }
        match self.hosts.get(&announced.host) {
            Some(host) => Address { host: host.clone(), ..announced },
            None => announced,
        }
    }
}

/// Whether it may be the name or the IP address of a host.
fn is_host(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok() || may_be_a_host(text) && !text.contains(':')
}

/// What stands before an @ would be a password, and hosts are shown.
fn may_be_a_host(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '@', '[', ']', ' '])
}

/// One server, and what is needed to connect to it.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) place: Place,
    pub(super) credentials: Credentials,
    /// What counts instead of their password.
    pub(super) password_file: Option<PasswordFile>,
    pub(super) database: Option<u8>,
    /// With TLS: the name that its certificate must have, if that is not its host.
    pub(super) certified_for: Option<String>,
    /// In a cluster: the only node that will do, if that is known.
    pub(super) node_id: Option<NodeId>,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(Address),
    UnixSocket(PathBuf),
}

impl Endpoint {
    /// Its address and its database.
    pub(super) fn name(&self) -> String {
        let database = self.database.unwrap_or(0);
        match &self.place {
            Place::Tcp(address) => format!("{address}/{database}"),
            Place::UnixSocket(path) => format!("{}/{database}", path.display()),
        }
    }
}

impl Deployment {
    /// All configured addresses.
    pub(super) fn hosts(&self) -> &[Address] {
        match &self.servers {
            Servers::One(address) => std::slice::from_ref(address),
            Servers::UnixSocket(_) => &[],
            Servers::Cluster(hosts) | Servers::Sentinels(hosts, ..) => hosts,
        }
    }

    /// The server itself. `None` if others have to be asked which server it is.
    pub(super) fn single(&self) -> Option<Endpoint> {
        match &self.servers {
            Servers::One(address) => Some(self.endpoint(address)),
            Servers::UnixSocket(path) => {
                Some(self.endpoint_of(Place::UnixSocket(path.clone()), None))
            }
            Servers::Cluster(_) | Servers::Sentinels(..) => None,
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// A server with locks, at this address.
    pub(super) fn endpoint(&self, address: &Address) -> Endpoint {
        let names = self.tls.as_ref().map(|tls| &tls.names);
        let certified_for =
            names.and_then(|names| names.of(&address.host, address.port, || self.first_name()));
        self.endpoint_of(Place::Tcp(address.clone()), certified_for)
    }

    /// A sentinel at this address. Sentinels have their own users, and no databases.
    pub(super) fn sentinel(&self, address: &Address) -> Endpoint {
        let credentials = match &self.servers {
            Servers::Sentinels(_, _, credentials) => credentials.clone(),
            _ => Credentials::default(),
        };
        Endpoint { credentials, password_file: None, database: None, ..self.endpoint(address) }
    }

    fn endpoint_of(&self, place: Place, certified_for: Option<String>) -> Endpoint {
        let (credentials, database) = (self.credentials.clone(), self.database);
        let password_file = self.password_file.clone();
        Endpoint { place, credentials, password_file, database, certified_for, node_id: None }
    }

    /// The first configured host that is a name.
    fn first_name(&self) -> Option<&str> {
        let mut hosts = self.hosts().iter().map(|address| &*address.host);
        hosts.find(|host| host.parse::<IpAddr>().is_err())
    }

    /// The scheme and the servers: the part of a configuration that may be shown.
    pub(crate) fn shown(&self) -> String {
        let s = if self.uses_tls { "s" } else { "" };
        let (form, name) = match &self.servers {
            Servers::One(_) => ("", self.name()),
            Servers::Cluster(_) => ("-cluster", self.name()),
            Servers::Sentinels(..) => ("-sentinel", self.name()),
            Servers::UnixSocket(path) => ("+unix", path.display().to_string()),
        };
        format!("redis{s}{form}://{name}")
    }

    /// The addresses and the database. If several servers share one address, also the service name.
    pub(crate) fn name(&self) -> String {
        let database = self.database.unwrap_or(0);
        if let Servers::UnixSocket(path) = &self.servers {
            return format!("{}/{database}", path.display());
        }
        let mut hosts: Vec<_> = self.hosts().iter().map(ToString::to_string).collect();
        hosts.sort_unstable();
        let name = format!("{}/{database}", hosts.join(","));
        match &self.servers {
            Servers::Sentinels(_, service, _) => format!("{name}?{service}"),
            _ => name,
        }
    }
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}
