//! The command is started in two steps: a process with a group of its own is made, which waits at a
//! gate. When the standby knows the group, the gate is opened, and that process becomes the command.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    unistd::{close, pipe},
};
use tokio::process::Child;

use super::{group::Group, holding::Holding};
use crate::{
    args::Run,
    outcome::{Failure, Outcome},
};

/// As in shells.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The program itself, also when its file was replaced.
pub(crate) fn program() -> io::Result<std::path::PathBuf> {
    let own = std::path::PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}

/// A command that waits to be started. When it is dropped, it never is.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) child: Child,
    pub(crate) group: Group,
    gate: File,
}

impl Launch {
    pub(crate) fn prepare(args: &Run, holding: &Holding, grace: u128) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::internal(format!("the command cannot be started: {error}"))
        };
        let (gate, opener) = gate().map_err(|error| failed(&error))?;
        let program = program().map_err(|error| failed(&error))?;
        let mut command = tokio::process::Command::new(program);
        command
            .arg0("redisson-lock")
            .arg("__launch")
            .arg(gate.as_raw_fd().to_string())
            .args(args.json.then_some("--json"))
            .arg("--")
            .args(&args.command)
            .env("REDISSON_LOCK_NAME", &args.name)
            .env("REDISSON_LOCK_HOLDER", holding.guard().holder())
            .env("REDISSON_LOCK_GRACE_MS", grace.to_string())
            .env_remove("REDISSON_LOCK_TOKEN")
            .stdin(Stdio::inherit())
            .process_group(0);
        if let Some(token) = holding.token() {
            command.env("REDISSON_LOCK_TOKEN", token.to_string());
        }
        let child = command.spawn().map_err(|error| failed(&error))?;
        let group = Group::led_by(child.id().unwrap_or_default() as i32);
        Ok(Self { child, group, gate: opener.into() })
    }

    /// Starts the command.
    pub(crate) fn go(mut self) -> (Child, Group) {
        // If it has ended already, its exit code tells.
        let _ = self.gate.write_all(b"g");
        (self.child, self.group)
    }
}

/// A pipe of which children inherit the end to read from.
fn gate() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (gate, opener) = pipe()?;
    fcntl(&opener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok((gate, opener))
}

/// Becomes the command when the gate opens. Returns why it could not.
pub(crate) fn exec_when_told(gate: i32, command: &[OsString]) -> Outcome {
    let mut told = [0];
    // It is opened anew, because the number alone is no safe handle.
    let path = format!("/dev/fd/{gate}");
    let open = File::open(&path);
    let _ = close(gate);
    let mut gate = match open {
        Ok(gate) => gate,
        Err(error) => {
            let why = format!("nothing was started: {path}: {error}: are /dev and /proc mounted?");
            return Outcome::new(NOT_EXECUTABLE).with(why);
        }
    };
    if gate.read_exact(&mut told).is_err() {
        // `run` has ended, or has lost the lock.
        return Outcome::new(NOT_EXECUTABLE);
    }
    let [program, arguments @ ..] = command else { return Outcome::new(NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    Outcome::new(code).with(format!("{}: {error}", program.to_string_lossy()))
}
