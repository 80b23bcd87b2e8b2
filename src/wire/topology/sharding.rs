//! [`has_sharded_channels`]: asks a node of a cluster whether it has sharded channels.

use super::source::{command, is_refusal};
use crate::{
    error::Error,
    wire::{answers::Failure, session::Session},
};

/// Fails if the node does not tell. A wrong guess would cost each wait a missed message.
pub(super) async fn has_sharded_channels(session: &Session) -> Result<bool, Error> {
    match command(session, "PUBSUB", &["SHARDNUMSUB"]).await {
        Ok(_) => Ok(true),
        Err(error) if is_unknown(&error) => Ok(false),
        Err(error) if error.text.starts_with("NOPERM") => Err(Error::Config(format!(
            "whether to use sharded channels is found out by PUBSUB SHARDNUMSUB, which is not \
             allowed here: allow it, or say Config::sharded_pubsub ({})",
            error.text
        ))),
        Err(error) => Err(Error::Redis(error.error())),
    }
}

/// Whether a server says that it does not know the command or the subcommand. Redis 6.2 writes `Unknown`, later ones
/// `unknown`.
fn is_unknown(error: &Failure) -> bool {
    is_refusal(error) && error.text.to_ascii_lowercase().starts_with("err unknown ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any other refusal says nothing about them, and the client would publish on plain channels for ever.
    #[test]
    fn only_a_server_that_does_not_know_the_question_has_no_sharded_channels() {
        for unknown in [
            // Redis 6.2, and 7 and later. The last two are of a server whose PUBSUB has another name.
            "ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.",
            "ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.",
            "ERR unknown command `PUBSUB`, with args beginning with: `SHARDNUMSUB`, ",
            "ERR unknown command 'PUBSUB', with args beginning with: 'SHARDNUMSUB' ",
        ] {
            assert!(is_unknown(&Failure::refused(unknown)), "{unknown}");
        }
        for other in [
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "LOADING Redis is loading the dataset in memory",
            "NOPERM User u has no permissions to run the 'pubsub|shardnumsub' command",
            "ERR max number of clients reached",
        ] {
            assert!(!is_unknown(&Failure::refused(other)), "{other}");
        }
        assert!(!is_unknown(&Failure::timed_out()));
    }
}
