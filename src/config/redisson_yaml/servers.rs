//! The mode sections: which servers there are, as a URL of this crate, and who logs in to them.

use std::{collections::BTreeMap, fmt::Write};

use url::Url;

use super::{
    document::Place as At,
    fields::{Fields, Text},
    names::{CLUSTER, SENTINEL, SINGLE},
};
use crate::{
    error::Error,
    options::ShardedPubsub,
    wire::{Credentials, percent_decoded, socket_url},
};

/// What a mode section says about the servers.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) url: String,
    /// Those in the addresses. They win over all others.
    pub(super) credentials: Credentials,
    /// `None`: there are no sentinels.
    pub(super) sentinel_credentials: Option<Credentials>,
    pub(super) nat: BTreeMap<String, String>,
    pub(super) sharded_pubsub: ShardedPubsub,
    /// Whether locks are confirmed by replicas, as everywhere but on a single server.
    pub(super) confirms: bool,
}

/// Whether the section of this name can be read.
pub(super) fn is_mode_of_this_crate(mode: &str) -> bool {
    [SINGLE, SENTINEL, CLUSTER].contains(&mode)
}

/// Reads the fields that only this section has.
pub(super) fn read(mode: &str, at: At, fields: &mut Fields) -> Result<Servers, Error> {
    match mode {
        SINGLE => single(at, fields),
        SENTINEL => sentinel(at, fields),
        CLUSTER => cluster(at, fields),
        _ => Err(at.error(format_args!(
            "{mode} is a mode that this crate does not have; it has {SINGLE}, {SENTINEL} and {CLUSTER}"
        ))),
    }
}

fn single(at: At, fields: &mut Fields) -> Result<Servers, Error> {
    let address = fields.text("address")?;
    let address = address.ok_or_else(|| at.error(format_args!("{SINGLE}.address is missing")))?;
    let database = database(fields)?;
    let address = Address::read(fields, "address", &address)?;
    let url = match &address.place {
        Place::Server { host, port } => {
            format!("{}://{host}:{port}{}", address.scheme(), path(database))
        }
        Place::Socket(_) if database > 0 => {
            return Err(at.error("a database of a Unix socket other than 0 is not supported"));
        }
        // Redisson decodes nothing in it.
        Place::Socket(path) => socket_url(path),
    };
    Ok(Servers { url, credentials: address.credentials, ..Servers::default() })
}

/// As in Redisson, database 0 is not selected: the user may not have the right.
fn path(database: u8) -> String {
    if database > 0 { format!("/{database}") } else { String::new() }
}

fn cluster(at: At, fields: &mut Fields) -> Result<Servers, Error> {
    if database(fields)? > 0 {
        return Err(
            at.error(format_args!("{CLUSTER}.database must be 0: a cluster of Redis has no other"))
        );
    }
    let sharded_pubsub = match fields.text("shardedSubscriptionMode")? {
        None => ShardedPubsub::Auto,
        Some(Text { text, place }) => match &*text {
            "AUTO" => ShardedPubsub::Auto,
            "ON" => ShardedPubsub::On,
            "OFF" => ShardedPubsub::Off,
            _ => {
                return Err(fields.wrong(
                    place,
                    "shardedSubscriptionMode",
                    "must be AUTO, ON or OFF",
                ));
            }
        },
    };
    let seeds = Seeds::read(fields, at, CLUSTER, "nodeAddresses")?;
    let url = seeds.url("-cluster", "", "");
    let nat = nat(fields)?;
    let credentials = seeds.credentials;
    Ok(Servers { url, credentials, nat, sharded_pubsub, confirms: true, ..Servers::default() })
}

fn sentinel(at: At, fields: &mut Fields) -> Result<Servers, Error> {
    let master = fields.text("masterName")?.map(|master| master.text);
    let master =
        master.ok_or_else(|| at.error(format_args!("{SENTINEL}.masterName is missing")))?;
    let database = database(fields)?;
    let seeds = Seeds::read(fields, at, SENTINEL, "sentinelAddresses")?;
    let service: String = url::form_urlencoded::byte_serialize(master.as_bytes()).collect();
    let url = seeds.url("-sentinel", &path(database), &format!("sentinelServiceName={service}&"));
    let of = |text: Option<Text>| text.map(|text| text.text);
    let sentinel_credentials = Some(Credentials {
        username: of(fields.text("sentinelUsername")?),
        password: of(fields.text("sentinelPassword")?),
    });
    let nat = nat(fields)?;
    let credentials = seeds.credentials;
    Ok(Servers {
        url,
        credentials,
        sentinel_credentials,
        nat,
        confirms: true,
        ..Servers::default()
    })
}

fn database(fields: &mut Fields) -> Result<u8, Error> {
    match fields.whole("database")? {
        None => Ok(0),
        Some((number, place)) => u8::try_from(number)
            .map_err(|_| fields.wrong(place, "database", "must be a number from 0 to 255")),
    }
}

/// Reads `natMapper`, and `natMap`, its older form.
fn nat(fields: &mut Fields) -> Result<BTreeMap<String, String>, Error> {
    let mut pairs = fields.pairs("natMap")?;
    if let Some(node) = fields.take("natMapper") {
        let (place, tag) = (node.place, node.tag.clone().unwrap_or_default());
        let map = match &*tag {
            "org.redisson.config.HostNatMapper" => "hostsMap",
            "org.redisson.config.HostPortNatMapper" => "hostsPortMap",
            _ => {
                let why = "must be an org.redisson.config.HostNatMapper or HostPortNatMapper";
                return Err(fields.wrong(place, "natMapper", why));
            }
        };
        let mut mapper = fields.section(node, "natMapper.")?;
        pairs.extend(mapper.pairs(map)?);
        mapper.finish(&[], &mut Vec::new())?;
    }
    Ok(pairs.into_iter().map(|(from, to)| (from, to.text)).collect())
}

/// Some nodes of a cluster, or sentinels.
struct Seeds {
    tls: bool,
    places: Vec<String>,
    credentials: Credentials,
}

impl Seeds {
    fn read(fields: &mut Fields, at: At, mode: &str, name: &str) -> Result<Self, Error> {
        let mut seeds = None::<Self>;
        for text in fields.texts(name)? {
            let Address { tls, credentials, place } = Address::read(fields, name, &text)?;
            let Place::Server { host, port } = place else {
                return Err(fields.wrong(text.place, name, "must not contain a Unix socket"));
            };
            let seeds = seeds.get_or_insert_with(|| Self {
                tls,
                places: Vec::new(),
                credentials: credentials.clone(),
            });
            if seeds.tls != tls {
                return Err(fields.wrong(text.place, name, "must be all with TLS or all without"));
            }
            if seeds.credentials != credentials {
                return Err(fields.wrong(text.place, name, "must all have the same credentials"));
            }
            seeds.places.push(format!("{host}:{port}"));
        }
        seeds.ok_or_else(|| at.error(format_args!("{mode}.{name} is missing or empty")))
    }

    fn url(&self, form: &str, path: &str, query: &str) -> String {
        let s = if self.tls { "s" } else { "" };
        let mut url = format!("redis{s}{form}://{}{path}?{query}", self.places[0]);
        for place in &self.places[1..] {
            let _ = write!(url, "node={place}&");
        }
        url.truncate(url.trim_end_matches(['?', '&']).len());
        url
    }
}

/// An address as Redisson writes it. No error repeats it, for it may contain a password.
struct Address {
    tls: bool,
    credentials: Credentials,
    place: Place,
}

enum Place {
    Server { host: String, port: u16 },
    Socket(String),
}

impl Address {
    fn read(fields: &Fields, name: &str, Text { text, place }: &Text) -> Result<Self, Error> {
        let wrong = |why| fields.wrong(*place, name, why);
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            "redis+uds" | "valkey+uds" => {
                let credentials = Credentials::default();
                return Ok(Self { tls: false, credentials, place: Place::Socket(rest.into()) });
            }
            _ => return Err(wrong("must begin with redis://, rediss://, valkey:// or valkeys://")),
        };
        let url = Url::parse(text).map_err(|_| wrong("must be redis://host:port"))?;
        let (Some(host), Some(port)) = (url.host_str().filter(|host| !host.is_empty()), url.port())
        else {
            return Err(wrong("must be redis://host:port, with a port"));
        };
        let read =
            |written: &str| match String::from_utf8(percent_decoded(&written.replace('+', " "))) {
                Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
                Err(_) => Err(wrong("has a user or a password that is not UTF-8")),
            };
        let mut credentials = Credentials {
            username: read(url.username())?,
            password: read(url.password().unwrap_or_default())?,
        };
        if url.password().is_none() {
            // Without a colon it is the password.
            credentials = Credentials { username: None, password: credentials.username };
        }
        Ok(Self { tls, credentials, place: Place::Server { host: host.into(), port } })
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "rediss" } else { "redis" }
    }
}

/// Refuses code of a user's own that changes which key is locked, how commands are called, or who
/// logs in. The classes that Redisson takes by itself change nothing.
pub(super) fn refuse_code(fields: &mut Fields) -> Result<(), Error> {
    for (name, usual, instead) in [
        ("nameMapper", "org.redisson.config.DefaultNameMapper", ": set a prefix by Config::prefix"),
        ("commandMapper", "org.redisson.config.DefaultCommandMapper", ""),
        ("credentialsResolver", "org.redisson.client.DefaultCredentialsResolver", ""),
    ] {
        let Some(node) = fields.take(name) else { continue };
        if node.tag.as_deref() != Some(usual) {
            let why = format!("is code that this crate cannot run{instead}");
            return Err(fields.wrong(node.place, name, &why));
        }
    }
    Ok(())
}
