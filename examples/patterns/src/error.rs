//! [`Result`].

/// Of any error. Programs of more than a page have an error type of their own.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
