//! Users who may do little.
