//! Unusable PEM text is refused at once, by an error that names it.

use redisson_lock::{Config, Error, Tls};

use crate::certificates::Authority;

fn refusal(tls: Tls) -> String {
    match Config::from_url("rediss://redis.example").unwrap().tls(tls) {
        Err(Error::Config(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn each_pem_that_cannot_be_used_is_named() {
    let authority = Authority::new("a test");
    let (own, others) = (authority.certify("client"), authority.certify("client"));
    let trusted = || authority.trusted();
    let certificate = own.pem();
    let cut = &certificate[..certificate.len() / 2];
    let cases = [
        (Tls::authority(""), "TLS authority"),
        (Tls::authority("nonsense"), "TLS authority"),
        (Tls::authority(own.key_pem()), "TLS authority"),
        (Tls::system().and_authority(cut), "TLS authority"),
        (trusted().and_authority(cut), "TLS authority"),
        (trusted().client_certificate("", own.key_pem()), "TLS client certificate"),
        (trusted().client_certificate(cut, own.key_pem()), "TLS client certificate"),
        (trusted().client_certificate(own.pem(), ""), "TLS client key"),
        (trusted().client_certificate(own.pem(), own.pem()), "TLS client key"),
        (trusted().client_certificate(own.pem(), others.key_pem()), "TLS client certificate"),
    ];
    for (case, (tls, named)) in cases.into_iter().enumerate() {
        let why = refusal(tls);
        assert!(why.contains(named), "case {case}: {why}");
        for pem in [own.key_pem(), others.key_pem()] {
            let line = pem.lines().nth(1).unwrap();
            assert!(!why.contains(line), "case {case}: {why}");
        }
    }
}

#[test]
fn pem_that_can_be_used_is_taken_and_not_shown() {
    let (authority, other) = (Authority::new("a test"), Authority::new("another"));
    let client = authority.certify("client");
    // Both in one text, words between them.
    let both = format!("the first:\n{}\nthe second:\n{}", authority.pem(), other.pem());
    let tls = Tls::authority(both)
        .and_authority(other.pem())
        .client_certificate(client.pem() + &authority.pem(), client.key_pem());
    let config = Config::from_url("rediss://redis.example").unwrap().tls(tls.clone()).unwrap();
    let shown = format!("{config:?} {tls:?}");
    assert!(shown.contains("rediss://redis.example:6379"), "{shown}");
    assert!(!shown.contains(client.key_pem().lines().nth(1).unwrap()), "{shown}");
}

/// So a configuration that is written and read again never falls back to plain text.
#[test]
fn tls_is_asked_for_by_the_url_alone() {
    for url in ["redis://h", "redis-cluster://h:1", "unix:///run/redis.sock"] {
        let plain = Config::from_url(url).unwrap().tls(Tls::system());
        let Err(Error::Config(why)) = plain else { panic!("{url}: {plain:?}") };
        assert!(why.contains(url), "{why}");
    }
}
