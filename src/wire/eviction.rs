//! The warning about a server that may evict locks when its memory is full.

use futures::FutureExt;

use super::{answers::info_field, connection::ConnectionSettings, link::Link};

/// Asks the server in the background, and warns. Nothing waits for it. Without the right to ask
/// there is no warning.
pub(super) fn look_for_eviction(settings: &ConnectionSettings, commands: &Link, server: String) {
    let commands = commands.clone();
    let look = async move {
        let answer = commands.command("INFO", &["memory".into()]).await;
        let Ok(Some(info)) = answer.map(|info| info.as_text()) else { return };
        if let Some(policy) = evicting(&info) {
            log!(
                warn,
                server,
                policy,
                "redis may evict locks when its memory is full: set maxmemory-policy noeviction"
            );
        }
    };
    settings.runtime.spawn(look.boxed());
}

/// The eviction policy, if the server may evict keys.
fn evicting(info: &str) -> Option<&str> {
    // Without a limit nothing is evicted.
    if info_field(info, "maxmemory")? == "0" {
        return None;
    }
    info_field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_and_a_policy_make_an_eviction() {
        let info = |limit, policy| {
            format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_human:1M\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(evicting(&info("1048576", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting(&info("1048576", "volatile-ttl")), Some("volatile-ttl"));
        assert_eq!(evicting(&info("1048576", "noeviction")), None);
        assert_eq!(evicting(&info("0", "allkeys-lru")), None);
        assert_eq!(evicting(""), None);
        assert_eq!(evicting("maxmemory:5"), None);
    }
}
