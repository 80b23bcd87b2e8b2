use super::*;
use crate::wire::error::WireError;

/// The error may be the reply to another command.
#[test]
fn what_ends_the_connection_says_nothing_of_the_commands_under_way() {
    let down = Error::new(ErrorKind::Cluster, "CLUSTERDOWN Hash slot not served");
    let unreadable = Error::new(ErrorKind::Protocol, "Invalid frame type prefix.");
    for (error, told) in
        [(down, RedisErrorKind::ClusterDown), (unreadable, RedisErrorKind::Protocol)]
    {
        let failure = failure(error);
        assert_eq!(failure.kind, FailureKind::Gone);
        assert_eq!(failure.error_kind(), told);
        let error = WireError::from(failure);
        assert!(error.is_unclear() && !error.did_nothing(), "{error:?}");
    }
    let moved = failure(Error::new(ErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381"));
    assert_eq!(moved.kind, FailureKind::Redirected);
    assert!(WireError::from(moved).did_nothing());
}

#[test]
fn a_reply_has_a_bounded_number_of_levels() {
    let nested =
        |levels: usize| (0..levels).fold(Value::Integer(1), |inner, _| Value::Array(vec![inner]));
    assert!(reply(nested(DEEPEST_REPLY)).is_ok());
    for levels in [DEEPEST_REPLY + 1, 1_000] {
        assert_eq!(reply(nested(levels)).unwrap_err().kind, FailureKind::Refused);
    }
}
