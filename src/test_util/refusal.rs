//! [`Refusal`]: why a server refuses requests.

/// Why a server refuses requests.
///
/// Whatever the reason, a call goes on trying: `try_lock` without a wait for
/// [`Config::command_timeout`], others for [`Config::retry_timeout`]. Then its error has the kind named
/// here.
///
/// [`Config::command_timeout`]: crate::Config::command_timeout
/// [`Config::retry_timeout`]: crate::Config::retry_timeout
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// `OOM`, [`RedisErrorKind::OutOfMemory`](crate::RedisErrorKind::OutOfMemory): no memory is left.
    /// Acquisitions are refused, releases are not.
    OutOfMemory,
    /// `MISCONF`, [`RedisErrorKind::CannotSave`](crate::RedisErrorKind::CannotSave): the disk is full.
    CannotSave,
    /// `NOREPLICAS`, [`RedisErrorKind::NoReplicas`](crate::RedisErrorKind::NoReplicas): too few
    /// replicas are connected.
    NoReplicas,
    /// `READONLY`, [`RedisErrorKind::ReadOnly`](crate::RedisErrorKind::ReadOnly): the server has
    /// become a replica.
    ReadOnly,
    /// `MASTERDOWN`, [`RedisErrorKind::NoMaster`](crate::RedisErrorKind::NoMaster): a replica has lost
    /// its master.
    MasterDown,
    /// `LOADING`, [`RedisErrorKind::Loading`](crate::RedisErrorKind::Loading): the server reads its
    /// data.
    Loading,
    /// `BUSY`, [`RedisErrorKind::Busy`](crate::RedisErrorKind::Busy): the server runs another script.
    Busy,
}

impl From<Refusal> for redis_in_process::Refusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::OutOfMemory => Self::OutOfMemory,
            Refusal::CannotSave => Self::Misconfigured,
            Refusal::NoReplicas => Self::NoReplicas,
            Refusal::ReadOnly => Self::ReadOnly,
            Refusal::MasterDown => Self::MasterDown,
            Refusal::Loading => Self::Loading,
            Refusal::Busy => Self::Busy,
        }
    }
}
