//! How a [`Config`] is read, written, checked and shown.

use super::*;
use crate::wire::Servers;

#[test]
fn a_written_config_is_read_and_unknown_words_are_refused() {
    let config: Config =
        serde_json::from_str(r#"{"url":"redis://h:1","watchdog":"1500ms"}"#).unwrap();
    let (_, settings) = config.into_settings().unwrap();
    assert_eq!(settings.watchdog, Duration::from_millis(1500));
    assert_eq!(settings.command_timeout, Duration::from_secs(3));
    assert!(serde_json::from_str::<Config>(r#"{"watchdog_ms":3}"#).is_err());
    assert!(serde_json::from_str::<Config>(r#"{"watchdog":"-3s"}"#).is_err());
}

#[test]
fn nonsense_is_refused() {
    assert!(matches!(Config::from_url("127.0.0.1"), Err(Error::Config(_))));
    assert!(matches!(Config::from_url(""), Err(Error::Config(_))));
    let short = Config::default().watchdog(Duration::ZERO).into_settings();
    assert!(matches!(short, Err(Error::Config(_))), "{short:?}");
    let long = Config::default().command_timeout(Duration::MAX).into_settings();
    assert!(matches!(long, Err(Error::Config(_))), "{long:?}");
}

#[test]
fn a_map_of_addresses_has_hosts_or_places() {
    let with = |from: &str, to: &str| Config::default().nat_map([(from, to)]).into_settings();
    for (from, to) in [("a", "10.0.0.1"), ("a:1", "b:2"), ("::1", "h"), ("[::1]:1", "h:1")] {
        assert!(with(from, to).is_ok(), "{from} {to}");
    }
    for (from, to) in [("a", "b:2"), ("a:1", "b"), ("a", ""), ("redis://a", "b"), ("a:b", "c")] {
        assert!(matches!(with(from, to), Err(Error::Config(_))), "{from} {to}");
    }
}

#[cfg(not(feature = "_tls"))]
#[test]
fn tls_is_refused_where_it_would_be_plain_text() {
    for url in ["rediss://h:1", "REDISS://h:1", " rediss://h:1", "valkeys://h:1"] {
        assert!(matches!(Config::from_url(url), Err(Error::Config(_))), "{url:?}");
    }
}

#[test]
fn a_password_is_not_shown() {
    let config = Config::from_url("redis://me:secret@h:1/2").unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(shown.contains("redis://h:1/2"), "{shown}");
}

#[test]
fn credentials_beside_the_url_count_instead_of_its_own() {
    let url = "redis-sentinel://u:p@h:1?sentinelServiceName=m&sentinelPassword=q";
    let config = Config::from_url(url).unwrap().password("%25").sentinel_username("s");
    let written = serde_json::to_string(&config).unwrap();
    let read: Config = serde_json::from_str(&written).unwrap();
    for config in [config, read] {
        let deployment = config.deployment().unwrap();
        let Servers::Sentinels(_, _, sentinels) = deployment.servers else { panic!("{url}") };
        for (credentials, username, password) in
            [(deployment.credentials, "u", "%25"), (sentinels, "s", "q")]
        {
            assert_eq!(credentials.username.as_deref(), Some(username));
            assert_eq!(credentials.password.as_deref(), Some(password));
        }
    }
    let elsewhere = Config::default().sentinel_password("p").into_settings();
    assert!(matches!(elsewhere, Err(Error::Config(_))), "{elsewhere:?}");
}

#[test]
fn tls_is_not_configured_for_a_url_without_it() {
    let plain = Config::default().tls(Tls::system());
    assert!(matches!(plain, Err(Error::Config(_))), "{plain:?}");
}
