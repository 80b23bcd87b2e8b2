//! `ask`: asks the holder of a lock to release it.

use redisson_lock::{Asked, Client, Config, Error};
use serde_json::json;

use crate::{
    args::{Name, Servers},
    connection::{config, connect},
    fields::is_holder,
    outcome::{Failure, Outcome, WRONG_KIND, print},
    survey::{Look, Sort},
    who::seen,
};

/// Nobody was asked.
const NOT_HELD: u8 = 1;

pub(crate) async fn ask(args: Name, servers: Servers, json: bool) -> Result<Outcome, Failure> {
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let name = args.name;
    let Some(asked) = ask_any_kind(&client, &config, &name).await? else {
        let text = format!("the key {name:?} is there, but is no lock: nobody was asked");
        return Err(Failure::new(WRONG_KIND, text));
    };
    let _ = client.close().await;
    let (holders, listening) = match asked {
        Asked::Sent { holders, listening, .. } => (holders, listening),
        _ => (0, 0),
    };
    if json {
        let line = json!({ "name": name, "holders": holders, "listening": listening });
        print(&format!("{line}\n"))?;
    } else if holders > 0 {
        print(&told(holders, listening))?;
    }
    Ok(match holders {
        0 => Outcome::new(NOT_HELD).with(format!("nobody holds {name:?}")),
        _ => Outcome::new(0),
    })
}

fn told(holders: u64, listening: u64) -> String {
    let holders = if holders == 1 { "the holder".into() } else { format!("{holders} holders") };
    match listening {
        0 => format!("asked {holders}; no client listens now\n"),
        1 => format!("asked {holders}; 1 client listens\n"),
        n => format!("asked {holders}; {n} clients listen\n"),
    }
}

/// `None`: the key is no lock.
async fn ask_any_kind(
    client: &Client,
    config: &Config,
    name: &str,
) -> Result<Option<Asked>, Failure> {
    match seen(client, config, name).await? {
        Look::Lock(seen) => {
            let asked = match seen.kind {
                Sort::Read | Sort::Write => client.read_write_lock(name).ask_to_release().await?,
                Sort::Lock | Sort::Fenced | Sort::Fair => {
                    client.lock(name).ask_to_release().await?
                }
            };
            return Ok(Some(asked));
        }
        Look::Free => return Ok(Some(Asked::Free)),
        Look::Foreign => return Ok(None),
        Look::OtherType => {}
    }
    let plain = client.plain_lock(name);
    match plain.inspect().await {
        // The token of another client is not asked.
        Ok(seen) if seen.holders.iter().all(|holder| is_holder(&holder.id)) => {
            Ok(Some(plain.ask_to_release().await?))
        }
        Ok(_) | Err(Error::WrongKind { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_a_line() {
        assert_eq!(told(1, 0), "asked the holder; no client listens now\n");
        assert_eq!(told(1, 1), "asked the holder; 1 client listens\n");
        assert_eq!(told(3, 2), "asked 3 holders; 2 clients listen\n");
    }
}
