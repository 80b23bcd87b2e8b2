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
fn a_password_of_another_type_is_not_in_the_error() {
    for field in ["password", "sentinel_password"] {
        for value in [
            "31337123",
            "-31337123",
            "31337123.5",
            "[31337123]",
            "{\"a\":31337123}",
            "\"31337123\\x\"",
        ] {
            let text = format!(r#"{{"url":"redis://h:1","{field}":{value}}}"#);
            let error = serde_json::from_str::<Config>(&text).unwrap_err().to_string();
            assert!(error.contains("no text") && !error.contains("31337"), "{error}");
        }
    }
    let config: Config = serde_json::from_str(r#"{"password":null}"#).unwrap();
    assert_eq!(config.password, None);
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
    for (from, to) in [("s3cret@a:1", "b:2"), ("a:1", "s3cret@b:2"), ("s3cret@a", "b")] {
        let Err(error) = with(from, to) else { panic!("{from} {to}") };
        let error = error.to_string();
        assert!(error.contains("an @") && !error.contains("s3cret"), "{error}");
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
fn a_password_file_is_checked_and_its_line_break_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    let config = Config::from_url("redis://me:url@h:1").unwrap().password_file(&path);
    let refusal = |config: Config| match config.into_settings() {
        Err(Error::Config(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = refusal(config.clone());
    assert!(why.contains("password file") && why.contains("cannot be read"), "{why}");
    for (written, password) in
        [("s3cret", "s3cret"), ("s3cret\n", "s3cret"), ("s3cret\r\n", "s3cret"), (" s\n\n", " s\n")]
    {
        std::fs::write(&path, written).unwrap();
        let (deployment, _) = config.clone().into_settings().unwrap();
        let file = deployment.password_file.unwrap();
        assert_eq!(file.read().unwrap(), password, "{written:?}");
        assert_eq!(deployment.credentials.username.as_deref(), Some("me"));
    }
    let why = refusal(config.clone().password("s3cret"));
    assert!(why.contains("both set") && !why.contains("s3cret"), "{why}");
    for unusable in ["", "\n"] {
        std::fs::write(&path, unusable).unwrap();
        assert!(refusal(config.clone()).contains("is empty"));
    }
}

#[test]
fn files_of_tls_are_refused_where_they_would_not_count() {
    let plain = [
        Config::default().tls_authority_file("ca.pem"),
        Config::default().tls_client_files("client.pem", "client.key"),
    ];
    for config in plain {
        let refused = config.into_settings();
        assert!(
            matches!(&refused, Err(Error::Config(why)) if why.contains("rediss")),
            "{refused:?}"
        );
    }
}

#[test]
fn what_was_set_can_be_read() {
    let config = Config::from_url("redis-cluster://me:s3cret@h:1").unwrap();
    assert_eq!(config.get_server(), "redis-cluster://h:1/0");
    let config = config.prefix("a:").watchdog(Duration::from_secs(7)).reuse_holds(false);
    assert_eq!((config.get_prefix(), config.get_reuse_holds()), ("a:", false));
    assert_eq!(config.get_watchdog(), Duration::from_secs(7));
}

#[test]
fn tls_is_not_configured_for_a_url_without_it() {
    let plain = Config::default().tls(Tls::system());
    assert!(matches!(plain, Err(Error::Config(_))), "{plain:?}");
}

/// As templates without a value produce it. The drivers would not agree on what it means.
#[test]
fn an_empty_username_is_none() {
    let url = "redis-sentinel://u:p@h:1?sentinelServiceName=m";
    let config = Config::from_url(url).unwrap().username("").sentinel_username("");
    let (deployment, _) = config.sentinel_password("q").into_settings().unwrap();
    let Servers::Sentinels(_, _, sentinels) = deployment.servers else { panic!("sentinels") };
    for (credentials, password) in [(deployment.credentials, "p"), (sentinels, "q")] {
        assert_eq!((credentials.username, &*credentials.password.unwrap()), (None, password));
    }
}
