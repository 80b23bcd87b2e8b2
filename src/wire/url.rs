//! Redis URLs: their schemes and query keys, and which parts of a URL may be shown.

use std::{iter, path::PathBuf};

use url::Url;

use super::deployment::{Address, Credentials, Deployment, Nat, Servers};
use crate::error::Error;

/// The kind of servers that a URL names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Server,
    Cluster,
    Sentinel,
    UnixSocket,
}

/// All known schemes.
const SCHEMES: [(&str, Form); 15] = [
    ("redis", Form::Server),
    ("rediss", Form::Server),
    ("redis-cluster", Form::Cluster),
    ("rediss-cluster", Form::Cluster),
    ("redis-sentinel", Form::Sentinel),
    ("rediss-sentinel", Form::Sentinel),
    ("valkey", Form::Server),
    ("valkeys", Form::Server),
    ("valkey-cluster", Form::Cluster),
    ("valkeys-cluster", Form::Cluster),
    ("valkey-sentinel", Form::Sentinel),
    ("valkeys-sentinel", Form::Sentinel),
    ("unix", Form::UnixSocket),
    ("redis+unix", Form::UnixSocket),
    ("valkey+unix", Form::UnixSocket),
];

impl Form {
    /// The known query keys.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Server | Self::UnixSocket => &[],
            Self::Cluster => &["node"],
            Self::Sentinel => {
                &["sentinelServiceName", "node", "sentinelUsername", "sentinelPassword"]
            }
        }
    }
}

/// Reads a Redis URL. No error repeats a possible secret.
pub(crate) fn read_url(url: &str) -> Result<Deployment, Error> {
    read(url, cfg!(feature = "_tls"))
}

/// `has_tls`: whether a TLS library is compiled.
fn read(url: &str, has_tls: bool) -> Result<Deployment, Error> {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(unusable(format!("it must begin with one of {}", schemes())));
    };
    let scheme = scheme.to_ascii_lowercase();
    let Some((_, form)) = SCHEMES.iter().find(|(known, _)| *known == scheme) else {
        let is_one = scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        let what = if is_one { format!("the scheme {scheme:?}") } else { "its scheme".into() };
        return Err(unusable(format!("{what} is unknown; known are {}", schemes())));
    };
    let uses_tls = scheme.starts_with("rediss") || scheme.starts_with("valkeys");
    if uses_tls && !has_tls {
        return Err(unusable(format!(
            "{scheme}:// needs one of the features tls-rustls, tls-rustls-ring, tls-native"
        )));
    }
    check_parts(*form, rest)?;
    // Other clients use this form for a Unix socket.
    let scheme = if scheme == "unix" { "redis+unix" } else { &scheme };
    let url =
        Url::parse(&format!("{scheme}://{rest}")).map_err(|error| unusable(error.to_string()))?;
    let servers = match form {
        Form::Server => Servers::One(host(&url, 6379)?),
        Form::Cluster => Servers::Cluster(hosts(&url, 6379)?),
        Form::UnixSocket => Servers::UnixSocket(socket(url.path())?),
        Form::Sentinel => {
            let of = |word| value(&url, word).filter(|value| !value.is_empty());
            let service = of("sentinelServiceName").ok_or_else(|| {
                unusable("?sentinelServiceName=name must name the service".into())
            })?;
            let credentials =
                Credentials { username: of("sentinelUsername"), password: of("sentinelPassword") };
            Servers::Sentinels(hosts(&url, 26379)?, service, credentials)
        }
    };
    Ok(Deployment {
        servers,
        credentials: credentials(&url)?,
        password_file: None,
        database: if *form == Form::UnixSocket { None } else { database(url.path())? },
        uses_tls,
        tls: None,
        nat: Nat::default(),
    })
}

fn host(url: &Url, usual_port: u16) -> Result<Address, Error> {
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| unusable("it has no host".into()))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok(Address::new(host, url.port().unwrap_or(usual_port)))
}

/// The host, and all hosts in `?node=`.
fn hosts(url: &Url, usual_port: u16) -> Result<Vec<Address>, Error> {
    let named = url.query_pairs().filter(|(word, _)| word == "node");
    let named = named.map(|(_, node)| {
        Address::parse_users(&node).ok_or_else(|| {
            unusable("?node= must be host:port, without a user or a password".into())
        })
    });
    iter::once(host(url, usual_port)).chain(named).collect()
}

fn value(url: &Url, word: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == word).map(|(_, value)| value.into_owned())
}

fn credentials(url: &Url) -> Result<Credentials, Error> {
    let read = |written: &str| match written {
        "" => Ok(None),
        written => String::from_utf8(percent_decoded(written))
            .map(Some)
            .map_err(|_| unusable("its user or password is not UTF-8".into())),
    };
    let password = url.password().unwrap_or_default();
    Ok(Credentials { username: read(url.username())?, password: read(password)? })
}

fn database(path: &str) -> Result<Option<u8>, Error> {
    match path.strip_prefix('/').unwrap_or(path).trim() {
        "" => Ok(None),
        number => match number.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(unusable("its path must be the number of a database, 0 to 255".into())),
        },
    }
}

/// The path of a socket, in which a space is `%20`.
fn socket(written: &str) -> Result<PathBuf, Error> {
    if written.ends_with('/') || written.is_empty() {
        return Err(unusable("it has no path of a Unix socket".into()));
    }
    let path = String::from_utf8(percent_decoded(written));
    path.map(PathBuf::from).map_err(|_| unusable("the path of its socket is not UTF-8".into()))
}

/// The URL of the socket with this path.
#[cfg(any(feature = "redis-rs", feature = "redisson-yaml"))]
pub(crate) fn socket_url(path: &str) -> String {
    let path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    format!("unix://{path}")
}

/// Decodes percent-encoding. A `%` without two hexadecimal digits after it stands for itself.
pub(crate) fn percent_decoded(written: &str) -> Vec<u8> {
    let mut written = written.as_bytes();
    let mut decoded = Vec::with_capacity(written.len());
    while let [first, rest @ ..] = written {
        let code = rest.get(..2).filter(|code| *first == b'%' && code[0] != b'+');
        let code = code.and_then(|code| str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        decoded.push(byte.unwrap_or(*first));
        written = if byte.is_some() { &rest[2..] } else { rest };
    }
    decoded
}

/// Refuses parts that would otherwise be ignored.
fn check_parts(form: Form, rest: &str) -> Result<(), Error> {
    if rest.contains('#') {
        return Err(unusable("write # as %23".into()));
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let is_socket = form == Form::UnixSocket && ["", "localhost"].contains(&authority);
    if path.contains('@') && !is_socket && !authority.ends_with("@localhost") {
        return Err(unusable("there is an @ behind a /: in a password write / as %2F".into()));
    }
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let key = pair.split_once('=').map_or(pair, |(key, _)| key);
        if !form.keys().contains(&key) {
            let may_be_shown = pair.contains('=') && !query.contains('@');
            return Err(unknown_key(
                form,
                key,
                may_be_shown && !query.contains("sentinelPassword="),
            ));
        }
        if key != "node" && seen.contains(&key) {
            return Err(unusable(format!("?{key}= is given twice")));
        }
        seen.push(key);
    }
    match form {
        Form::Cluster if !["", "0"].contains(&path) => {
            Err(unusable("a cluster has only database 0".into()))
        }
        Form::UnixSocket
            if !["", "localhost"].contains(&authority) && !authority.ends_with("@localhost") =>
        {
            Err(unusable(format!(
                "the path of a Unix socket must follow {}",
                "unix:// or unix://user:password@localhost"
            )))
        }
        _ => Ok(()),
    }
}

fn unknown_key(form: Form, key: &str, may_be_shown: bool) -> Error {
    let known = match form.keys() {
        [] => "this scheme takes no ? parameters".to_owned(),
        keys => format!("the ? parameters of this scheme are {}", keys.join(", ")),
    };
    // It may be the rest of a password that contains a ? or a &.
    if !may_be_shown || !key.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c)) {
        return unusable(format!("{known}; in a password write % / ? # & @ as %25 %2F and so on"));
    }
    unusable(format!("{known}, not {key:?}"))
}

fn schemes() -> String {
    SCHEMES.map(|(scheme, _)| format!("{scheme}://")).join(", ")
}

fn unusable(why: String) -> Error {
    Error::Config(format!("the URL cannot be used: {why}"))
}

#[cfg(test)]
mod tests;
