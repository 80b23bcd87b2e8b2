//! URLs that are read, URLs that are refused, and what errors may repeat of them.

use super::*;

fn refusal(url: &str) -> String {
    match read_url(url) {
        Err(Error::Config(why)) => why,
        Err(error) => panic!("{url}: {error}"),
        Ok(config) => panic!("{url} is taken for {}", config.shown()),
    }
}

#[test]
fn only_known_schemes_are_read() {
    let unknown = ["https", "redis+tls", "redis-clusters", "redis-sentinels", "rediss+unix", "tcp"];
    for scheme in unknown.into_iter().chain(["redisss", "valkeyx", "valkey-clusters", "http", ""]) {
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
fn tls_is_refused_where_it_would_be_plain_text() {
    for url in ["rediss://h:1", "REDISS://h:1", " rediss://h:1", "valkeys://h:1"] {
        assert!(matches!(read(url, false), Err(Error::Config(_))), "{url:?}");
        assert!(read(url, true).is_ok_and(|deployment| deployment.uses_tls), "{url:?}");
    }
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
    assert!(refusal("redis-sentinel://h:1?sentinelName=m").contains("sentinelServiceName, node"));
    for url in ["redis-sentinel://h:1", "redis-sentinel://h:1?sentinelServiceName="] {
        assert!(refusal(url).contains("sentinel"), "{url}");
    }
    refusal("redis-sentinel://h:1?sentinelServiceName=m&sentinelServiceName=n");
    refusal("redis-cluster://h:1?node=h");
    for node in ["user:pw@h:1", "pw@h:1", "pw%40h:1", ":pw@h:1", "[pw@h]:1", "h:1/2"] {
        let why = refusal(&format!("redis-cluster://h:1?node={node}"));
        assert!(why.contains("?node=") && !why.contains("pw"), "{node}: {why}");
        refusal(&format!("redis-sentinel://h:1?sentinelServiceName=m&node={node}"));
    }
    refusal("redis-cluster://h:1/3");
    refusal("redis://h:1#2");
    refusal("unix://run/redis.sock");
    refusal("unix://u:p@run/redis.sock");
    for no_socket in ["unix://", "unix:///", "unix://localhost", "redis+unix://u:p@localhost/"] {
        assert!(refusal(no_socket).contains("socket"), "{no_socket}");
    }
    refusal("unix:///run/%FF.sock");
}

#[test]
fn what_may_be_the_rest_of_a_password_is_not_repeated() {
    for url in ["redis://:12?s3cret@h:1", "redis://:12?s3cret", "redis-cluster://u:1?node=s3cret@h"]
    {
        let why = refusal(url);
        assert!(!why.contains("s3cret"), "{why}");
    }
}

#[test]
fn a_password_with_a_slash_has_to_be_encoded() {
    for url in [
        "redis://:pa/s3cret@h:1",
        "redis://u:12/s3cret@h:1/2",
        "redis-cluster://u:pa/s3cret@h:1?node=h:2",
        "redis-sentinel://:p/s3cret@h:1/0?sentinelServiceName=m",
        "unix://u:pa/s3cret@localhost/run/redis.sock",
    ] {
        let why = refusal(url);
        assert!(why.contains("/ as %2F") && !why.contains("s3cret"), "{url}: {why}");
    }
    for url in ["unix:///run/a@b.sock", "unix:///run/:@b", "redis://u:pa%2Fs@h:1"] {
        read_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    }
}

#[test]
fn all_documented_forms_are_read() {
    let known = [
        ("redis://h", "redis://h:6379/0"),
        (" REDIS://u:p@h:1/2 ", "redis://h:1/2"),
        ("valkey://h:1", "redis://h:1/0"),
        ("redis://[::1]:2", "redis://[::1]:2/0"),
        ("redis-cluster://[::1]:1?node=[::2]:2", "redis-cluster://[::1]:1,[::2]:2/0"),
        ("redis-cluster://h:1?node=i:2&node=g:3", "redis-cluster://g:3,h:1,i:2/0"),
        ("valkey-cluster://:p@h:1/", "redis-cluster://h:1/0"),
        ("redis-sentinel://h:1/3?sentinelServiceName=m&node=g:2", "redis-sentinel://g:2,h:1/3?m"),
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
        let config = read_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let shown = config.shown();
        assert_eq!(shown, expected, "{url}");
    }
}

#[test]
fn masters_behind_the_same_sentinels_are_several_servers() {
    let name = |url| read_url(url).unwrap().name();
    let (a, b) = (
        "redis-sentinel://h:1?sentinelServiceName=a",
        "redis-sentinel://h:1?sentinelServiceName=b",
    );
    assert_ne!(name(a), name(b));
    assert_eq!(name(a), name("redis-sentinel://u:p@h:1/0?sentinelServiceName=a"));
}
