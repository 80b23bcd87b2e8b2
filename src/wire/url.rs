//! Redis URLs: what they may say, and what of it may be shown.

use std::path::{Path, PathBuf};

use fred::types::config::ServerConfig;

use super::FredConfig;
use crate::error::Error;

/// What a URL names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Server,
    Cluster,
    Sentinel,
    UnixSocket,
}

/// All schemes that are read. fred takes any other for a plain-text connection to a single server.
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
    /// What may stand behind the `?`. fred ignores all else.
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

/// Reads a Redis URL. No error repeats what may be a secret.
pub(crate) fn check_url(url: &str) -> Result<FredConfig, Error> {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(unusable(format!("it begins with none of {}", schemes())));
    };
    let scheme = scheme.to_ascii_lowercase();
    let Some((_, form)) = SCHEMES.iter().find(|(known, _)| *known == scheme) else {
        let is_one = scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        let what = if is_one { format!("the scheme {scheme:?}") } else { "its scheme".into() };
        return Err(unusable(format!("{what} is none of {}", schemes())));
    };
    if scheme.starts_with("rediss") || scheme.starts_with("valkeys") {
        // fred takes such a URL without TLS compiled in for one without it, and sends passwords in the clear.
        if !cfg!(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native")) {
            return Err(unusable(format!(
                "{scheme}:// needs one of the features tls-rustls, tls-rustls-ring, tls-native"
            )));
        }
        choose_cryptography();
    }
    check_parts(*form, rest)?;
    // The form other clients use for a Unix socket.
    let scheme = if scheme == "unix" { "redis+unix" } else { &scheme };
    let mut config = FredConfig::from_url(&format!("{scheme}://{rest}"))
        .map_err(|error| unusable(error.details().to_owned()))?;
    if let ServerConfig::Unix { path } = &mut config.server {
        *path = socket(path)?;
    }
    match &config.server {
        ServerConfig::Sentinel { service_name, .. } if service_name.is_empty() => {
            Err(unusable("?sentinelServiceName= names no service".into()))
        }
        _ => Ok(config),
    }
}

/// fred takes the path of a socket as it stands in a URL, where a space is `%20`.
fn socket(path: &Path) -> Result<PathBuf, Error> {
    let mut written = path.as_os_str().as_encoded_bytes();
    if written.ends_with(b"/") || written.is_empty() {
        return Err(unusable("it names no Unix socket".into()));
    }
    let mut path = Vec::with_capacity(written.len());
    while let [first, rest @ ..] = written {
        let code = rest.get(..2).filter(|code| *first == b'%' && code[0] != b'+');
        let code = code.and_then(|code| str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        path.push(byte.unwrap_or(*first));
        written = if byte.is_some() { &rest[2..] } else { rest };
    }
    let path = String::from_utf8(path);
    path.map(PathBuf::from).map_err(|_| unusable("the path of its socket is no UTF-8".into()))
}

/// What stands behind `scheme://`, as far as fred would ignore it.
fn check_parts(form: Form, rest: &str) -> Result<(), Error> {
    if rest.contains('#') {
        return Err(unusable("a # in it must be written %23".into()));
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !form.keys().contains(&key) {
            let may_be_shown = pair.contains('=') && !query.contains('@');
            return Err(unknown_key(
                form,
                key,
                may_be_shown && !query.contains("sentinelPassword="),
            ));
        }
        if key == "node" && !is_host_and_port(value) {
            return Err(unusable("?node= must be host:port".into()));
        }
        if key != "node" && seen.contains(&key) {
            return Err(unusable(format!("?{key}= is there twice")));
        }
        seen.push(key);
    }
    match form {
        Form::Cluster if !["", "0"].contains(&path) => {
            Err(unusable("a cluster has one database only".into()))
        }
        Form::UnixSocket
            if !["", "localhost"].contains(&authority) && !authority.ends_with("@localhost") =>
        {
            Err(unusable(format!(
                "the path of a Unix socket stands behind {}",
                "unix:// or unix://user:password@localhost"
            )))
        }
        _ => Ok(()),
    }
}

fn unknown_key(form: Form, key: &str, may_be_shown: bool) -> Error {
    let known = match form.keys() {
        [] => "nothing may stand behind the ? of this scheme".to_owned(),
        keys => format!("behind the ? of this scheme may stand {}", keys.join(", ")),
    };
    // It may be the rest of a password that has a ? or a & in it.
    if !may_be_shown || !key.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c)) {
        return unusable(format!(
            "{known}; in a password % / ? # & @ must be written %25 %2F and so on"
        ));
    }
    unusable(format!("{known}, not {key:?}"))
}

fn is_host_and_port(node: &str) -> bool {
    let parts = node.split_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn schemes() -> String {
    SCHEMES.map(|(scheme, _)| format!("{scheme}://")).join(", ")
}

fn unusable(why: String) -> Error {
    Error::Config(format!("the URL cannot be used: {why}"))
}

/// rustls panics where several sorts of cryptography are compiled in, for other parts of the program
/// perhaps, and none is chosen. A choice that was made stands.
fn choose_cryptography() {
    #[cfg(feature = "tls-rustls")]
    let _ = fred::rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(feature = "tls-rustls-ring")]
    let _ = fred::rustls::crypto::ring::default_provider().install_default();
}

/// Scheme and server: all of a configuration that may be shown.
pub(crate) fn shown(config: &FredConfig) -> String {
    let s = if config.uses_tls() { "s" } else { "" };
    let form = match &config.server {
        ServerConfig::Centralized { .. } => "",
        ServerConfig::Clustered { .. } => "-cluster",
        ServerConfig::Sentinel { .. } => "-sentinel",
        ServerConfig::Unix { .. } => "+unix",
    };
    let name = match &config.server {
        ServerConfig::Unix { path } => path.display().to_string(),
        _ => server_name(config),
    };
    format!("redis{s}{form}://{name}")
}

/// The address of the server, the database on it and, of several that are found at one address, its
/// name there.
pub(crate) fn server_name(config: &FredConfig) -> String {
    let database = config.database.unwrap_or(0);
    if let ServerConfig::Unix { path } = &config.server {
        return format!("{}/{database}", path.display());
    }
    let mut hosts: Vec<_> = config.server.hosts().iter().map(ToString::to_string).collect();
    hosts.sort_unstable();
    let name = format!("{}/{database}", hosts.join(","));
    match &config.server {
        ServerConfig::Sentinel { service_name, .. } => format!("{name}?{service_name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match check_url(url) {
            Err(Error::Config(why)) => why,
            Err(error) => panic!("{url}: {error}"),
            Ok(config) => panic!("{url} is taken for {}", shown(&config)),
        }
    }

    #[test]
    fn only_known_schemes_are_read() {
        let unknown =
            ["https", "redis+tls", "redis-clusters", "redis-sentinels", "rediss+unix", "tcp"];
        for scheme in
            unknown.into_iter().chain(["redisss", "valkeyx", "valkey-clusters", "http", ""])
        {
            let why = refusal(&format!("{scheme}://h:1?sentinelServiceName=m"));
            assert!(why.contains(scheme) && why.contains("rediss-sentinel://"), "{why}");
        }
        for no_scheme in ["", "h:1", "127.0.0.1", "redis:h", "user:pw@h:1", "redis:/h:1"] {
            assert!(refusal(no_scheme).contains("rediss-sentinel://"), "{no_scheme}");
        }
        let secret = refusal("user:pw@redis://h:1");
        assert!(!secret.contains("pw"), "{secret}");
    }

    #[test]
    fn only_known_words_may_stand_behind_the_question_mark() {
        let unknown = [
            ("redis://h:1?watchdog=5s", "watchdog"),
            ("redis://h:1/2?db=3", "db"),
            ("redis://h:1?node=h:2", "node"),
            ("valkey-cluster://h:1?nodes=h:2", "nodes"),
            ("redis-cluster://h:1?sentinelServiceName=m", "sentinelServiceName"),
            ("redis-sentinel://h:1?sentinelServiceName=m&protocol=3", "protocol"),
            ("redis-sentinel://h:1?sentinelservicename=m", "sentinelservicename"),
            ("unix:///path?db=1", "db"),
        ];
        for (url, word) in unknown {
            assert!(refusal(url).contains(&format!("not {word:?}")), "{url}: {}", refusal(url));
        }
        assert!(
            refusal("redis-sentinel://h:1?sentinelName=m").contains("sentinelServiceName, node")
        );
        for url in ["redis-sentinel://h:1", "redis-sentinel://h:1?sentinelServiceName="] {
            assert!(refusal(url).contains("sentinel"), "{url}");
        }
        refusal("redis-sentinel://h:1?sentinelServiceName=m&sentinelServiceName=n");
        refusal("redis-cluster://h:1?node=h");
        refusal("redis-cluster://h:1?node=user:pw@h:1");
        refusal("redis-cluster://h:1/3");
        refusal("redis://h:1#2");
        refusal("unix://run/redis.sock");
        refusal("unix://u:p@run/redis.sock");
        for no_socket in ["unix://", "unix:///", "unix://localhost", "redis+unix://u:p@localhost/"]
        {
            assert!(refusal(no_socket).contains("socket"), "{no_socket}");
        }
        refusal("unix:///run/%FF.sock");
    }

    #[test]
    fn what_may_be_the_rest_of_a_password_is_not_repeated() {
        for url in
            ["redis://:12?s3cret@h:1", "redis://:12?s3cret", "redis-cluster://u:1?node=s3cret@h"]
        {
            let why = refusal(url);
            assert!(!why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn all_documented_forms_are_read() {
        let known = [
            ("redis://h", "redis://h:6379/0"),
            (" REDIS://u:p@h:1/2 ", "redis://h:1/2"),
            ("valkey://h:1", "redis://h:1/0"),
            ("redis-cluster://h:1?node=i:2&node=g:3", "redis-cluster://g:3,h:1,i:2/0"),
            ("valkey-cluster://:p@h:1/", "redis-cluster://h:1/0"),
            (
                "redis-sentinel://h:1/3?sentinelServiceName=m&node=g:2",
                "redis-sentinel://g:2,h:1/3?m",
            ),
            (
                "valkey-sentinel://h?sentinelServiceName=m&sentinelUsername=u&sentinelPassword=p",
                "redis-sentinel://h:26379/0?m",
            ),
            ("unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
            ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
            ("unix:///run/a b/é.sock", "redis+unix:///run/a b/é.sock"),
            ("unix:///run/a%20b/%C3%A9%25.sock", "redis+unix:///run/a b/é%.sock"),
            ("unix:///run/{a}/100%/%+1.sock", "redis+unix:///run/{a}/100%/%+1.sock"),
            ("valkey+unix://u:p@localhost/run/redis.sock", "redis+unix:///run/redis.sock"),
        ];
        for (url, expected) in known {
            let config = check_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let shown = shown(&config);
            assert_eq!(shown, expected, "{url}");
        }
    }

    #[test]
    fn masters_behind_the_same_sentinels_are_several_servers() {
        let name = |url| server_name(&check_url(url).unwrap());
        let (a, b) = (
            "redis-sentinel://h:1?sentinelServiceName=a",
            "redis-sentinel://h:1?sentinelServiceName=b",
        );
        assert_ne!(name(a), name(b));
        assert_eq!(name(a), name("redis-sentinel://u:p@h:1/0?sentinelServiceName=a"));
    }
}
