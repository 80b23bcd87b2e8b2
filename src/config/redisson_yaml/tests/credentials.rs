//! Users and passwords of a YAML file.

use super::*;

#[test]
fn credentials_are_looked_up_apart() {
    for (yaml, username, password) in [
        (
            "singleServerConfig: {address: 'redis://u:p@h:1', password: x}\npassword: y",
            Some("u"),
            Some("p"),
        ),
        ("singleServerConfig: {address: 'redis://p%40+q@h:1'}", None, Some("p@ q")),
        ("singleServerConfig: {address: 'redis://:p@h:1'}", None, Some("p")),
        (
            "singleServerConfig: {address: 'redis://h:1', username: u, password: x}\npassword: y",
            Some("u"),
            Some("y"),
        ),
        ("singleServerConfig: {address: 'redis://h:1', username: u}", None, None),
        ("singleServerConfig: {address: 'redis://h:1', password: 007}", None, Some("007")),
        ("singleServerConfig: {address: 'redis://h:1', password: ~}", None, None),
        ("singleServerConfig: {address: 'redis://h:1', password: '~'}", None, Some("~")),
    ] {
        let config = good(yaml);
        assert_eq!(config.username.as_deref(), username, "{yaml}");
        assert_eq!(config.password.as_deref(), password, "{yaml}");
        assert_eq!(config.url, "redis://h:1", "{yaml}");
    }
}

/// The password need not stand in the file.
#[test]
fn a_user_without_a_password_is_logged_in_with_one_that_is_set() {
    let config = || good("singleServerConfig: {address: 'redis://h:1', username: u}");
    let user = |config: Config| {
        let written = serde_json::to_string(&config).unwrap();
        let read: Config = serde_json::from_str(&written).unwrap();
        let [user, again] = [config, read].map(|config| config.deployment().unwrap().credentials);
        assert_eq!(user.username, again.username, "{written}");
        user.username
    };
    assert_eq!(user(config()), None);
    assert_eq!(user(config().password("p")).as_deref(), Some("u"));
    assert_eq!(user(config().password_file("/secret")).as_deref(), Some("u"));
    assert_eq!(user(config().username("open")).as_deref(), Some("open"));
}
