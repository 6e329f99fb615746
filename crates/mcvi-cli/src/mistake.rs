//! Errors that the user can fix, distinguished from all others by the exit code.

use std::fmt;

/// An error that the user can fix, with a message that says how.
#[derive(Debug)]
pub struct Mistake(pub String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// Mark an error as the user's mistake, keeping its whole message.
pub fn mistaken(error: anyhow::Error) -> anyhow::Error {
    anyhow::Error::new(Mistake(format!("{error:#}")))
}

/// The exit code: 2 for the user's mistakes, 1 for anything else.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let theirs = error.chain().any(|e| {
        let library = e.downcast_ref::<mcvi::Error>();
        e.is::<Mistake>()
            || matches!(
                library,
                Some(
                    mcvi::Error::Setting { .. }
                        | mcvi::Error::Density { .. }
                        | mcvi::Error::Newer { .. }
                        | mcvi::Error::Table { .. }
                        | mcvi::Error::Target { .. }
                        | mcvi::Error::File { .. }
                        | mcvi::Error::Damaged { .. }
                        | mcvi::Error::Data { .. }
                )
            )
    });
    if theirs { 2 } else { 1 }
}
