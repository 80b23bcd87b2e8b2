//! The command line on real servers.

#[cfg(target_os = "linux")]
mod announced;
mod asked;
#[cfg(target_os = "linux")]
mod audited;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod losses;
#[cfg(target_os = "linux")]
mod moving;
#[cfg(target_os = "linux")]
mod queries;
#[cfg(target_os = "linux")]
mod running;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod unreachable;
