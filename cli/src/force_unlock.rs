//! `force-unlock`: frees a lock, from one holder or whoever holds it.

use redisson_lock::Error;
use serde_json::json;

use crate::{
    args::{ForceUnlock, Servers},
    connection::{config, connect},
    fields::is_holder,
    outcome::{Failure, Outcome, USAGE, WRONG_KIND, print},
    survey::{Look, Sort},
    who::seen,
};

/// Nothing was freed.
const NOT_FREED: u8 = 1;

pub(crate) async fn force_unlock(
    args: ForceUnlock,
    servers: Servers,
    json: bool,
) -> Result<Outcome, Failure> {
    let holder = args.whom.if_holder.as_deref();
    if let Some(holder) = holder.filter(|holder| !is_holder(holder)) {
        let text = format!("--if-holder: {holder:?} is not the id of a holder: `who` shows it");
        return Err(Failure::new(USAGE, text));
    }
    let config = config(&servers)?;
    let client = connect(&config).await?;
    let kind = match seen(&client, &config, &args.name).await? {
        Look::Lock(seen) => seen.kind,
        Look::Free => Sort::Lock,
        // Freeing it would delete what somebody else keeps there.
        Look::Foreign => {
            let text = format!("the key {:?} is there, but is no lock: it stays", args.name);
            return Err(Failure::new(WRONG_KIND, text));
        }
        Look::OtherType => return Err(Error::WrongKind { key: args.name }.into()),
    };
    let sides = client.read_write_lock(&args.name);
    let lock = match kind {
        Sort::Write if holder.is_none_or(|holder| holder.ends_with(":write")) => {
            sides.write_lock().clone()
        }
        Sort::Read | Sort::Write => sides.read_lock().clone(),
        Sort::Fair => client.fair_lock(&args.name),
        Sort::Lock | Sort::Fenced => client.lock(&args.name),
    };
    let freed = match holder {
        Some(holder) => lock.force_unlock_if(holder).await?,
        None => lock.force_unlock().await?,
    };
    let _ = client.close().await;
    if json {
        print(&format!("{}\n", json!({ "name": args.name, "freed": freed })))?;
    } else if freed {
        print("freed\n")?;
    }
    Ok(match (freed, holder) {
        (true, _) => Outcome::new(0),
        (false, Some(holder)) => {
            Outcome::new(NOT_FREED).with(format!("{holder} does not hold {:?}", args.name))
        }
        (false, None) => Outcome::new(NOT_FREED).with(format!("nobody holds {:?}", args.name)),
    })
}
